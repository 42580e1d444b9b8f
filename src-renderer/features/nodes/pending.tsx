import { useId, useState, type FormEvent } from 'react';
import { Button, Group, Text, TextInput } from '@mantine/core';
import type { PendingView } from '#shared/api/joining.ts';
import { confirm } from '../../components/confirm.tsx';
import { Section } from '../../components/page.tsx';
import { Ago, Name } from '../../components/text.tsx';
import { toastUndo } from '../../components/toasts.tsx';
import { formatDuration } from '../../format/format.ts';
import { plainText } from '../../format/plain-text.ts';
import { useAction, usePending } from '../../queries/queries.ts';
import { useNow } from '../../stores/clock.ts';
import { useIsStale } from '../../stores/connection.ts';
import classes from './nodes.module.css';

const changes = ['pending', 'nodes', 'status'] as const;

/** Machines that ask to join. The digits are typed, never shown here: nobody approves without comparing. */
export function Pending() {
  const now = useNow();
  const pending = usePending().data?.pending ?? [];
  if (pending.length === 0) return null;
  return (
    <Section
      title={pending.length === 1 ? 'A machine asks to join' : `${pending.length} machines ask to join`}
      lead="Go to the machine and type the six digits that it shows. Deny what you do not know."
    >
      <ul className={classes['pending']}>
        {pending.map((request) => (
          <Request key={request.id} request={request} now={now} />
        ))}
      </ul>
    </Section>
  );
}

function Request({ request, now }: { readonly request: PendingView; readonly now: number }) {
  const name = plainText(request.name);
  const [code, setCode] = useState('');
  const isStale = useIsStale();
  const approve = useAction('approve', {
    failed: null,
    done: (approved) => `${plainText(approved.name)} is approved. Now confirm it at that machine.`,
    changes,
  });
  const deny = useAction('deny', { failed: `Could not deny ${name}`, changes });
  const unblock = useAction('unblock', { failed: `Could not unblock ${name}`, changes });
  const refusalId = useId();
  const digits = code.replace(/\D/g, '');

  const submit = (event: FormEvent): void => {
    event.preventDefault();
    approve.mutate({ body: { code: digits } });
  };
  const askAndBlock = async (): Promise<void> => {
    const yes = await confirm({
      title: `Deny ${name} and block it?`,
      body: 'It cannot ask again until you unblock it.',
      action: 'Deny and block',
    });
    if (!yes) return;
    deny.mutate(
      { params: { id: request.id }, body: { block: true } },
      {
        onSuccess: () =>
          toastUndo(`${name} is blocked.`, () => unblock.mutate({ params: { id: request.id } })),
      },
    );
  };

  return (
    <li className={classes['pendingOne']}>
      <div className={classes['pendingWho']}>
        <Text fw={600} component="div">
          <Name>{request.name}</Name>
        </Text>
        <Text size="sm" c="dimmed">
          from {plainText(request.remoteAddress)} · key <code>{request.id}</code> · asked{' '}
          <Ago at={request.askedAt} /> · {formatDuration(request.expiresAt - now)} left
        </Text>
      </div>
      {request.approved ? (
        <Text size="sm" role="status">
          {request.confirmed
            ? 'Approved and confirmed: it is joining.'
            : 'Approved. It joins when somebody confirms the digits at that machine.'}
        </Text>
      ) : (
        <form onSubmit={submit}>
          <Group gap="xs" align="flex-end">
            <TextInput
              label={`Digits that ${name} shows`}
              inputMode="numeric"
              autoComplete="off"
              placeholder="000 000"
              maxLength={8}
              w={200}
              value={code}
              onChange={(event) => setCode(event.currentTarget.value)}
              error={approve.error !== null}
              aria-describedby={approve.error === null ? undefined : refusalId}
            />
            <Button type="submit" disabled={isStale || digits.length !== 6} loading={approve.isPending}>
              Approve
            </Button>
          </Group>
        </form>
      )}
      <Group gap="xs">
        <Button
          variant="default"
          disabled={isStale}
          loading={deny.isPending}
          aria-label={`Deny ${name}`}
          onClick={() => deny.mutate({ params: { id: request.id }, body: {} })}
        >
          Deny
        </Button>
        <Button
          variant="default"
          disabled={isStale}
          aria-label={`Deny and block ${name}`}
          onClick={() => void askAndBlock()}
        >
          Deny and block
        </Button>
      </Group>
      {approve.error !== null && (
        <Text size="sm" id={refusalId} role="alert" className={classes['refused'] ?? ''}>
          {plainText(approve.error.message)}
        </Text>
      )}
    </li>
  );
}

/** Keys that may not ask any more. */
export function Blocked() {
  const blocked = usePending().data?.blocked ?? [];
  const unblock = useAction('unblock', {
    failed: 'Could not unblock it',
    done: () => 'It may ask to join again.',
    changes,
  });
  if (blocked.length === 0) return null;
  return (
    <Section title="Blocked" lead="These machines cannot ask to join.">
      <ul className={classes['pending']}>
        {blocked.map(({ nodeId, name, blockedAt }) => (
          <li key={nodeId} className={classes['pendingOne']}>
            <div className={classes['pendingWho']}>
              <Name>{name}</Name>
              <Text size="sm" c="dimmed">
                key <code>{nodeId.slice(0, 12)}</code> · blocked <Ago at={blockedAt} />
              </Text>
            </div>
            <Button
              variant="default"
              size="compact-sm"
              aria-label={`Unblock ${plainText(name)}`}
              onClick={() => unblock.mutate({ params: { id: nodeId.slice(0, 12) } })}
            >
              Unblock
            </Button>
          </li>
        ))}
      </ul>
    </Section>
  );
}
