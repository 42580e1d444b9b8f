import { Alert, Button, Paper, Text, TextInput, Title } from '@mantine/core';
import { useEffect, type FormEvent } from 'react';
import type { Login } from '../../app/login-code.ts';
import { useSession } from '../../stores/session.ts';

/** Where a one-time link ends: its code is exchanged, once, for a login. It can be typed as well. */
export function LoginPage({ login: { busy, logIn } }: { readonly login: Login }) {
  const notice = useSession((session) => session.notice);
  useEffect(() => {
    document.title = 'Log in · Covey';
  }, []);

  const submit = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    const field = event.currentTarget.elements.namedItem('code') as HTMLInputElement;
    const code = field.value.trim().replace(/^.*#code=/, '');
    field.value = '';
    void logIn(code);
  };
  return (
    <main className="login" data-testid="login">
      <Paper withBorder p="xl" radius="lg" className="login-card">
        <div className="brand brand-large">
          <img src="/dashboard/icon.svg" alt="" width={36} height={36} />
          <span>Covey</span>
        </div>
        {notice === null ? null : (
          <Alert color="yellow" role="status" data-testid="login-notice" mb="md">
            {notice}
          </Alert>
        )}
        <Title order={1} size="h3" mb={6}>
          Log in
        </Title>
        <Text c="dimmed" size="sm" mb="md">
          Open Covey from the app on the controller. Without the app, run <code>covey open</code> there and
          open the link that it prints, or type its code here.
        </Text>
        <form onSubmit={submit} autoComplete="off">
          <TextInput
            name="code"
            label="Code"
            description="It works once, for a minute."
            placeholder="XXXX-XXXX-XXXX-XXXX"
            required
            withAsterisk={false}
            maxLength={128}
            spellCheck={false}
            autoCapitalize="characters"
            classNames={{ input: 'mono' }}
          />
          <Button type="submit" mt="md" fullWidth loading={busy}>
            Log in
          </Button>
        </form>
      </Paper>
    </main>
  );
}
