import { MantineProvider } from '@mantine/core';
import { Notifications } from '@mantine/notifications';
import { QueryClientProvider, type QueryClient } from '@tanstack/react-query';
import { useEffect } from 'react';
import type { ShellBridge } from '#shared/api/shell.ts';
import type { ApiClient } from '../api-client/api-client.ts';
import { ApiContext } from '../app/api-context.ts';
import { cssVariables, theme } from '../app/theme.ts';
import { ConfirmDialog } from '../components/confirm.tsx';
import { LoadingState } from '../components/states.tsx';
import { toastError } from '../components/toasts.tsx';
import { MachinePage } from './machine-page.tsx';
import { beginMachineSession, useMachineSession } from './machine-session.ts';
import { shellError } from './shell-error.ts';
import { SignIn } from './sign-in.tsx';

export interface MachineAppProps {
  readonly api: ApiClient;
  readonly queries: QueryClient;
  readonly nonce: string;
  /** null: a browser. */
  readonly shell: ShellBridge | null;
}

/** This computer's own page. It needs no controller: everything here is answered on this computer. */
export function MachineApp({ api, queries, nonce, shell }: MachineAppProps) {
  const token = useMachineSession((session) => session.token);
  useEffect(() => {
    if (token !== null || shell === null) return;
    shell.localToken().then(
      (given) => beginMachineSession(given, false),
      (error: unknown) => toastError('The app does not let this page in', shellError(error)),
    );
  }, [shell, token]);
  useEffect(() => () => queries.clear(), [queries, token]);
  return (
    <MantineProvider
      theme={theme}
      defaultColorScheme="auto"
      cssVariablesResolver={cssVariables}
      getStyleNonce={() => nonce}
      deduplicateCssVariables={false}
    >
      <QueryClientProvider client={queries}>
        <ApiContext value={api}>
          <Notifications position="bottom-right" limit={4} />
          {token !== null ? (
            <MachinePage shell={shell} />
          ) : shell === null ? (
            <SignIn />
          ) : (
            <LoadingState what="this computer" />
          )}
          <ConfirmDialog />
        </ApiContext>
      </QueryClientProvider>
    </MantineProvider>
  );
}
