import { Anchor, Text } from '@mantine/core';
import { useEffect, useState } from 'react';
import { askHost, type Host } from '../../api-client/host.ts';
import type { Login } from '../../app/login-code.ts';
import { openThisComputer } from '../../app/this-computer.ts';
import { plainText } from '../../format/plain-text.ts';
import { useSession } from '../../stores/session.ts';
import { CodeForm } from './code-form.tsx';
import { LoginCard } from './login-card.tsx';

const lookEveryMs = 5_000;

/** Where a one-time link ends: its code is exchanged, once, for a login. It can be typed as well. */
export function LoginPage({ login: { busy, error, logIn } }: { readonly login: Login }) {
  const notice = useSession((session) => session.notice);
  const host = useHost();
  useEffect(() => {
    document.title = 'Sign in · Covey';
  }, []);
  const alone = host?.role === 'worker' && host.trouble?.code === 'not_a_member';
  return (
    <LoginCard title={alone ? 'No covey yet' : 'Sign in'} notice={notice}>
      <Where host={host} />
      {alone ? null : <CodeForm busy={busy} error={error} onCode={(code) => void logIn(code)} />}
      {host?.role === 'worker' ? (
        <Text size="sm" mt="md">
          What this computer lends, and to whom, is on its own page:{' '}
          <Anchor href="/machine" inherit underline="always" onClick={openThisComputer}>
            This computer
          </Anchor>
        </Text>
      ) : null}
    </LoginCard>
  );
}

/** Where a code comes from, as far as this address tells what it is. */
function Where({ host }: { readonly host: Host | null }) {
  if (host?.role === 'worker' && host.trouble?.code === 'not_a_member') {
    return (
      <Text c="dimmed" size="sm">
        This computer has joined none, so there is nothing to sign in to.
      </Text>
    );
  }
  const name = host?.role === 'worker' && host.controller !== null ? plainText(host.controller) : null;
  const away = host?.role === 'worker' && !host.connected;
  return (
    <>
      <Text c="dimmed" size="sm" mb="md">
        {name === null ? null : `This computer is lent to ${name}. `}
        {name === null ? 'In a dashboard that is open' : 'In the dashboard there'}, under Settings,{' '}
        <b>Sign in on another machine or tab</b> shows a code. It works once, for five minutes.
        {name === null ? ' On the controller itself, the app opens without one.' : null}
      </Text>
      {name === null ? (
        <Text c="dimmed" size="sm" mb="md">
          A terminal on the controller gives a link that signs in: <code className="mono">covey open</code>,
          or in a checkout <code className="mono">node bin/covey.mjs open</code>.
        </Text>
      ) : null}
      {away ? (
        <Text size="sm" mb="md" className="login-away" role="status">
          {name ?? 'The controller'} does not answer now, so a code will not work until it does.
        </Text>
      ) : null}
    </>
  );
}

function useHost(): Host | null {
  const [host, setHost] = useState<Host | null>(null);
  useEffect(() => {
    const stop = new AbortController();
    const look = (): void =>
      void askHost(AbortSignal.any([stop.signal, AbortSignal.timeout(lookEveryMs)])).then((found) => {
        if (!stop.signal.aborted && found !== null) setHost(found);
      });
    look();
    const timer = setInterval(look, lookEveryMs);
    return () => {
      clearInterval(timer);
      stop.abort();
    };
  }, []);
  return host;
}
