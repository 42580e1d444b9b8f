import { MantineProvider } from '@mantine/core';
import { Notifications } from '@mantine/notifications';
import { QueryClientProvider, type QueryClient } from '@tanstack/react-query';
import { useEffect } from 'react';
import type { ApiClient } from '../api-client/api-client.ts';
import { ConfirmDialog } from '../components/confirm.tsx';
import { LoginPage } from '../features/login/login-page.tsx';
import { followEvents } from '../queries/event-stream.ts';
import { setConnection } from '../stores/connection.ts';
import { forgetLive } from '../stores/live.ts';
import { useSession } from '../stores/session.ts';
import { ApiContext } from './api-context.ts';
import { useLogin } from './login-code.ts';
import { Shell } from './shell.tsx';
import { cssVariables, theme } from './theme.ts';

export interface AppProps {
  readonly api: ApiClient;
  readonly queries: QueryClient;
  readonly nonce: string;
}

export function App({ api, queries, nonce }: AppProps) {
  const token = useSession((session) => session.token);
  const login = useLogin(api);
  useEffect(() => {
    if (token === null) return undefined;
    const stop = new AbortController();
    void followEvents(api, queries, stop.signal);
    return () => {
      stop.abort();
      // Nothing of this login shows in the next.
      queries.clear();
      forgetLive();
      setConnection({ phase: 'connecting' });
    };
  }, [api, queries, token]);

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
          {token === null ? <LoginPage login={login} /> : <Shell />}
          <ConfirmDialog />
        </ApiContext>
      </QueryClientProvider>
    </MantineProvider>
  );
}
