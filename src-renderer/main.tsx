import './api-client/zod-setup.ts';
import '@mantine/core/styles.css';
import '@mantine/notifications/styles.css';
import './styles/base.css';
import './styles/layout.css';
import './styles/components.css';
import { createRoot } from 'react-dom/client';
import { createApiClient } from './api-client/api-client.ts';
import { App } from './app/app.tsx';
import { createQueries } from './app/query-client.ts';
import { styleNonce } from './app/style-nonce.ts';
import { useConnection } from './stores/connection.ts';
import { endSession, useSession } from './stores/session.ts';

/** Composition root of the page. */
const api = createApiClient({
  token: () => useSession.getState().token,
  onLoggedOut: (token) => endSession('Your login has ended.', token),
});
const root = document.getElementById('root');
if (root) createRoot(root).render(<App api={api} queries={createQueries()} nonce={styleNonce()} />);

// A chunk that is gone: Covey was updated while this page was open. While nothing answers, loading the page again
// would leave the browser's own error page, which does not come back by itself.
addEventListener('vite:preloadError', () => {
  const { phase } = useConnection.getState().connection;
  if (phase !== 'lost') return location.reload();
  const stop = useConnection.subscribe(({ connection }) => {
    if (connection.phase !== 'live') return;
    stop();
    location.reload();
  });
});
