import { Alert, Paper, Title } from '@mantine/core';
import type { ReactNode } from 'react';

/** A page on which somebody has to show who they are. */
export function LoginCard(props: {
  readonly title: string;
  /** Why it is shown, where that is not plain. */
  readonly notice: string | null;
  readonly children: ReactNode;
}) {
  return (
    <main className="login" data-testid="login">
      <Paper withBorder p="xl" radius="lg" className="login-card">
        <div className="brand brand-large">
          <img src="/dashboard/icon.svg" alt="" width={36} height={36} />
          <span>Covey</span>
        </div>
        {props.notice === null ? null : (
          <Alert color="yellow" role="status" data-testid="login-notice" mb="md">
            {props.notice}
          </Alert>
        )}
        <Title order={1} size="h3" mb={6}>
          {props.title}
        </Title>
        {props.children}
      </Paper>
    </main>
  );
}
