import { useEffect } from 'react';
import { LoginPage } from '../features/login/login-page.tsx';
import { followEvents } from '../queries/event-stream.ts';
import { setConnection } from '../stores/connection.ts';
import { forgetLive } from '../stores/live.ts';
import { useSession } from '../stores/session.ts';
import { AppFrame, type AppFrameProps } from './app-frame.tsx';
import { useLogin } from './login-code.ts';
import { Shell } from './shell.tsx';

export function App({ api, queries, nonce }: AppFrameProps) {
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
    <AppFrame api={api} queries={queries} nonce={nonce}>
      {token === null ? <LoginPage login={login} /> : <Shell />}
    </AppFrame>
  );
}
