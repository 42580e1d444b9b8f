import { Button, Group, Text, TextInput } from '@mantine/core';
import { useState, type FormEvent } from 'react';
import type { DiscoveryView, SelfView } from '#shared/api/self.ts';
import { confirm } from '../components/confirm.tsx';
import { Section } from '../components/page.tsx';
import { StatusMark } from '../components/status.tsx';
import { plainText } from '../format/plain-text.ts';
import { useAction } from '../queries/queries.ts';
import { controllersOf } from './controllers.ts';

/** Whose machine this is, or how it becomes somebody's. */
export function CoveySection(props: {
  readonly self: SelfView;
  readonly found: DiscoveryView | undefined;
  readonly onLookAgain: () => void;
}) {
  const { membership, join, role } = props.self;
  if (role === 'controller') {
    return (
      <Section title="Covey">
        <Text size="sm">This computer is the controller of your covey.</Text>
      </Section>
    );
  }
  if (membership) return <Member membership={membership} />;
  if (join && (join.phase === 'comparing' || join.phase === 'approved' || join.phase === 'connecting')) {
    return <Joining join={join} />;
  }
  return <Find {...props} />;
}

function Member({ membership }: { readonly membership: NonNullable<SelfView['membership']> }) {
  const { connected, addresses, trouble } = membership;
  const name = plainText(membership.controllerName);
  const where = addresses[0] ? ` at ${addresses[0].host}:${addresses[0].port}` : '';
  const leave = useAction('leave', { failed: 'Could not leave', changes: ['self'] });
  const ask = async (): Promise<void> => {
    const yes = await confirm({
      title: 'Leave this covey?',
      body: 'What runs here for the covey ends, and to come back it has to join again. Models on its disk stay.',
      action: 'Leave',
      danger: true,
    });
    if (yes) leave.mutate({});
  };
  return (
    <Section
      title="Covey"
      actions={
        <Button size="xs" variant="default" loading={leave.isPending} onClick={() => void ask()}>
          Leave this covey
        </Button>
      }
    >
      <Text mb={6}>This computer is lent to {name}.</Text>
      {connected ? (
        <StatusMark tone="good">{`Connected${where}`}</StatusMark>
      ) : (
        <>
          <StatusMark tone="warn">Not connected</StatusMark>
          <Text size="sm">
            {trouble ? plainText(trouble.message) : `Trying${where}.`} The rules below hold all the same.
          </Text>
        </>
      )}
    </Section>
  );
}

function Joining({ join }: { readonly join: NonNullable<SelfView['join']> }) {
  const { phase, code, controller, confirmed } = join;
  const whom = plainText(controller?.name ?? controller?.address?.host ?? 'the controller');
  const changes = ['self'] as const;
  const agree = useAction('confirmJoin', { failed: 'Could not confirm', changes });
  const cancel = useAction('cancelJoin', { failed: 'Could not cancel', changes });
  const cancelButton = (
    <Button size="xs" variant="default" loading={cancel.isPending} onClick={() => cancel.mutate({})}>
      Cancel
    </Button>
  );
  if (phase === 'connecting' || code === null) {
    return (
      <Section title="Joining" actions={cancelButton}>
        <Text size="sm" role="status">
          Connecting to {whom} ...
        </Text>
      </Section>
    );
  }
  return (
    <Section title="Joining" actions={cancelButton}>
      <Text size="sm">Somebody at {whom} has to type this number under “Machines” there:</Text>
      <p className="machine-digits">{`${code.slice(0, 3)} ${code.slice(3)}`}</p>
      <div role="status">
        {phase === 'approved' ? <StatusMark tone="good">{`It was typed at ${whom}`}</StatusMark> : null}
        {confirmed ? (
          <Text size="sm" c="dimmed">
            You have confirmed. Waiting for the controller.
          </Text>
        ) : null}
      </div>
      {confirmed ? null : (
        <Button
          size="xs"
          mt="sm"
          variant={phase === 'approved' ? 'filled' : 'default'}
          loading={agree.isPending}
          onClick={() => agree.mutate({})}
        >
          The same number was typed there
        </Button>
      )}
    </Section>
  );
}

function Find(props: {
  readonly self: SelfView;
  readonly found: DiscoveryView | undefined;
  readonly onLookAgain: () => void;
}) {
  const { self, found } = props;
  const [text, setText] = useState('');
  const join = useAction('join', { failed: 'Could not join', changes: ['self'] });
  const controllers = controllersOf(found);
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    const typed = text.trim();
    if (typed === '') return;
    join.mutate({ body: typed.startsWith('covey1.') ? { joinString: typed } : { controller: typed } });
  };
  const nothing =
    found === undefined
      ? 'Looking for controllers ...'
      : (found.problem ?? 'No controller was found on your network. Is Covey running there?');
  return (
    <Section
      title="Join a covey"
      lead="It is lent to nobody yet."
      actions={
        <Button size="xs" variant="default" onClick={props.onLookAgain}>
          Look again
        </Button>
      }
    >
      {self.join?.phase === 'failed' && self.join.error ? (
        <Text size="sm" className="setting-error" role="alert" mb="sm">
          {plainText(self.join.error.message)}
        </Text>
      ) : null}
      {controllers.length === 0 ? (
        <Text size="sm" c="dimmed" mb="sm">
          {plainText(nothing)}
        </Text>
      ) : (
        <ul className="machine-found">
          {controllers.map(({ nodeId, name, verified }) => (
            <li key={nodeId}>
              <Text size="sm">
                {plainText(name)}
                {verified ? '' : ' (does not answer)'}
              </Text>
              <Group gap="xs">
                <Button
                  size="xs"
                  variant={verified ? 'filled' : 'default'}
                  disabled={join.isPending}
                  onClick={() => join.mutate({ body: { controller: nodeId } })}
                >
                  {`Join ${plainText(name)}`}
                </Button>
              </Group>
            </li>
          ))}
        </ul>
      )}
      <form className="machine-join" onSubmit={submit} autoComplete="off">
        <TextInput
          label="Join string, or address of a controller"
          name="join"
          size="sm"
          value={text}
          onChange={(event) => setText(event.currentTarget.value)}
          maxLength={4_096}
          spellCheck={false}
        />
        <Button type="submit" size="sm" variant="default" loading={join.isPending}>
          Join
        </Button>
      </form>
    </Section>
  );
}
