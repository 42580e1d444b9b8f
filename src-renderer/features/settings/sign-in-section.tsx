import { Button, Group, Text } from '@mantine/core';
import { useState } from 'react';
import type { SignInCodeView } from '#shared/api/access.ts';
import { CopyField, CopyIcon } from '../../components/copy.tsx';
import { Section } from '../../components/page.tsx';
import { useAction } from '../../queries/queries.ts';
import { useNow } from '../../stores/clock.ts';
import { useLive } from '../../stores/live.ts';

interface Made extends SignInCodeView {
  /** By this page's clock. */
  readonly endsAt: number;
}

/** A code that signs a person in on another machine, so that nobody needs a terminal there or here. */
export function SignInSection({ lanAddresses }: { readonly lanAddresses: readonly string[] }) {
  const [made, setMade] = useState<Made | null>(null);
  const make = useAction('signInCode', { failed: 'Could not make a code' });
  const show = (): void =>
    make.mutate({}, { onSuccess: (view) => setMade({ ...view, endsAt: Date.now() + view.lifeMs }) });
  return (
    <Section
      title="Sign in on another machine or tab"
      lead="At a machine that only lends, and in each further tab of a browser, the sign-in page asks for a code."
      actions={
        made === null ? (
          <Button size="xs" variant="default" loading={make.isPending} onClick={show}>
            Show a code
          </Button>
        ) : (
          <Button size="xs" variant="default" onClick={() => setMade(null)}>
            Hide
          </Button>
        )
      }
    >
      {made === null ? (
        <Text size="sm" c="dimmed">
          Whoever has the code can do all that you can. It works once, for five minutes.
        </Text>
      ) : (
        <Code made={made} lanAddresses={lanAddresses} again={show} busy={make.isPending} />
      )}
    </Section>
  );
}

function Code(props: {
  readonly made: Made;
  readonly lanAddresses: readonly string[];
  readonly again: () => void;
  readonly busy: boolean;
}) {
  const { made, lanAddresses } = props;
  const leftS = Math.ceil((made.endsAt - useNow()) / 1_000);
  const madeAt = made.expiresAt - made.lifeMs;
  const used = useLive(({ events }) => events.some(({ kind, at }) => kind === 'audit-login' && at >= madeAt));
  if (used || leftS <= 0) {
    return (
      <Group gap="sm" justify="space-between" role="status">
        <Text size="sm" fw={560}>
          {used ? 'Somebody has signed in: a code works once.' : 'The code has expired.'}
        </Text>
        <Button size="xs" variant="default" loading={props.busy} onClick={props.again}>
          Show another
        </Button>
      </Group>
    );
  }
  return (
    <div className="setting-stack">
      <div className="sign-in-code">
        <code tabIndex={0} role="textbox" aria-readonly aria-label="Sign-in code">
          {made.code}
        </code>
        <CopyIcon value={made.code} what="the code" />
      </div>
      <Text size="sm" role="timer" aria-live="off" className="number">
        Good once, for {clockOf(leftS)} more.
      </Text>
      <ol className="sign-in-steps">
        <li>
          In another tab here, or at the other machine, open {new URL(made.url).origin}; there with the port
          of its own Covey, where it was given another one.
        </li>
        <li>Type the code there, or open this link:</li>
      </ol>
      <CopyField value={made.url} what="the sign-in link" />
      {lanAddresses.map((address) => (
        <CopyField
          key={address}
          value={`${address}/#code=${made.code}`}
          what={`the sign-in link over the network, ${address}`}
        />
      ))}
      {lanAddresses.length === 0 ? null : (
        <Text size="sm" c="dimmed">
          The links with https are for machines that have not joined.
        </Text>
      )}
    </div>
  );
}

/** `4:07 min` */
function clockOf(seconds: number): string {
  return seconds < 60
    ? `${seconds} s`
    : `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')} min`;
}
