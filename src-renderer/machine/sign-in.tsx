import { Text } from '@mantine/core';
import { useEffect, useState } from 'react';
import { CoveyError } from '#shared/errors.ts';
import { useApi } from '../app/api-context.ts';
import { CodeForm } from '../features/login/code-form.tsx';
import { LoginCard } from '../features/login/login-card.tsx';
import { takeLoginCode } from '../stores/session.ts';
import { beginMachineSession, useMachineSession } from './machine-session.ts';

/** In a browser, which cannot read this machine's own token: a one-time link or its code gives the right. */
export function SignIn() {
  const api = useApi();
  const notice = useMachineSession((session) => session.notice);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<string | null>(null);
  const signIn = async (code: string): Promise<void> => {
    setBusy(true);
    setError(null);
    try {
      beginMachineSession((await api.call('machineSession', { body: { code } })).token, true);
    } catch (failure) {
      setError(CoveyError.from(failure).message);
      setBusy(false);
    }
  };
  useEffect(() => {
    const take = (): void => {
      const code = takeLoginCode();
      if (code !== null) void signIn(code);
    };
    take();
    addEventListener('hashchange', take);
    return () => removeEventListener('hashchange', take);
  }, []);
  return (
    <LoginCard title="This computer" notice={notice}>
      <Text c="dimmed" size="sm" mb="md">
        What this computer lends is for the person at it. In the Covey app this page is open at once. Where
        Covey runs without its window, <code className="nowrap">covey open machine</code> on this computer
        prints a link, and the code in it can be typed here.
      </Text>
      <CodeForm busy={busy} error={error} onCode={(code) => void signIn(code)} />
      <Text size="sm" mt="md">
        <a href="/">To the dashboard</a>
      </Text>
    </LoginCard>
  );
}
