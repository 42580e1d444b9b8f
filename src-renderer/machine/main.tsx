import '../api-client/zod-setup.ts';
import '@mantine/core/styles.css';
import '@mantine/notifications/styles.css';
import '../styles/base.css';
import '../styles/layout.css';
import '../styles/components.css';
import './machine.css';
import { createRoot } from 'react-dom/client';
import type { ShellBridge } from '#shared/api/shell.ts';
import { createApiClient } from '../api-client/api-client.ts';
import { createQueries } from '../app/query-client.ts';
import { styleNonce } from '../app/style-nonce.ts';
import { MachineApp } from './machine-app.tsx';
import { endMachineSession, useMachineSession } from './machine-session.ts';

/** Composition root of the page of this machine itself. */
const api = createApiClient({
  token: () => useMachineSession.getState().token,
  onLoggedOut: endMachineSession,
});
const shell = (window as { coveyShell?: ShellBridge }).coveyShell ?? null;
const root = document.getElementById('root');
if (root) {
  createRoot(root).render(
    <MachineApp api={api} queries={createQueries()} nonce={styleNonce()} shell={shell} />,
  );
}
