import { useEffect, useMemo, useState } from 'react';
import { Alert, Anchor, Button, List, Modal, Stack, Tabs, Text } from '@mantine/core';
import { IconAlertTriangle, IconCircleCheck } from '@tabler/icons-react';
import { encode } from 'uqr';
import type { NodeView } from '#shared/api/schema.ts';
import { hrefTo } from '../../app/router.ts';
import { CodeBlock, CopyField } from '../../components/copy.tsx';
import { ErrorState, LoadingState } from '../../components/states.tsx';
import { formatDuration } from '../../format/format.ts';
import { plainText } from '../../format/plain-text.ts';
import { useAction, useStatus } from '../../queries/queries.ts';
import { useNow } from '../../stores/clock.ts';
import classes from './nodes.module.css';
import { portOf, reachOf } from './reach.ts';

/** How another machine gets in: by a join string that carries the right, or by comparing digits. */
export function AddMachine({
  nodes,
  onClose,
}: {
  readonly nodes: readonly NodeView[];
  readonly onClose: () => void;
}) {
  const [before] = useState(() => new Set(nodes.map(({ id }) => id)));
  const joined = nodes.filter(({ id }) => !before.has(id));
  return (
    <Modal
      opened
      onClose={onClose}
      title="Add a machine"
      size="lg"
      closeButtonProps={{ 'aria-label': 'Close' }}
    >
      <Reachable />
      {joined.map(({ id, name }) => (
        <Alert key={id} color="green" mb="md" icon={<IconCircleCheck size={18} aria-hidden />} role="status">
          <Anchor href={hrefTo('machines', id)} size="sm">
            {plainText(name)}
          </Anchor>{' '}
          has joined.
        </Alert>
      ))}
      <Tabs defaultValue="invite">
        <Tabs.List mb="md">
          <Tabs.Tab value="invite">With a join string</Tabs.Tab>
          <Tabs.Tab value="digits">By comparing digits</Tabs.Tab>
        </Tabs.List>
        <Tabs.Panel value="invite">
          <Invite joined={joined.length} />
        </Tabs.Panel>
        <Tabs.Panel value="digits">
          <Digits />
        </Tabs.Panel>
      </Tabs>
    </Modal>
  );
}

/** Said before anybody walks to another machine with a string that leads nowhere. */
function Reachable() {
  const status = useStatus().data;
  const reach = status === undefined ? 'network' : reachOf(status.clusterAddress);
  if (reach === 'network' || reach === 'address') return null;
  return (
    <Alert
      color="yellow"
      mb="md"
      icon={<IconAlertTriangle size={18} aria-hidden />}
      title="This covey can only be reached from this computer"
    >
      <Stack gap="xs">
        <Text size="sm">
          Other machines cannot join as it is. End Covey here and start it so that it listens to your network:
        </Text>
        <CodeBlock value="covey controller --cluster 0.0.0.0:7879" what="command that opens the controller" />
        <Text size="sm">
          If it was started by <code>npm run up</code>:
        </Text>
        <CodeBlock
          value="npm run up -- --cluster 0.0.0.0:7879"
          what="command that opens it after npm run up"
        />
      </Stack>
    </Alert>
  );
}

/** Not everybody has it installed. */
function CommandName() {
  return (
    <Text size="sm" c="dimmed">
      Where Covey is not installed and there is a copy of its source, the command is{' '}
      <code>node bin/covey.mjs</code> in that folder, instead of <code>covey</code>.
    </Text>
  );
}

function Invite({ joined }: { readonly joined: number }) {
  const now = useNow();
  const invite = useAction('invite', { failed: null });
  const { mutate } = invite;
  // Each string lets one machine in: after that it is of no use.
  const [usedBy, setUsedBy] = useState(0);
  useEffect(() => mutate({}), [mutate]);
  const another = (): void => {
    setUsedBy(joined);
    mutate({});
  };
  const { data, error } = invite;
  if (error !== null) {
    return <ErrorState title="There is no join string" error={error} onRetry={() => mutate({})} />;
  }
  if (data === undefined) return <LoadingState what="a join string" />;
  const leftMs = data.expiresAt - now;
  if (leftMs <= 0 || joined > usedBy) {
    return (
      <Stack align="flex-start">
        <Text size="sm">
          {joined > usedBy
            ? 'A join string is good for one machine. For the next one make another.'
            : 'This join string has expired.'}
        </Text>
        <Button loading={invite.isPending} onClick={another}>
          Make another join string
        </Button>
      </Stack>
    );
  }
  const { joinString } = data;
  return (
    <Stack>
      <Text size="sm">
        Install Covey on the other machine and give it this string. It is good for one machine and for{' '}
        {formatDuration(leftMs)}; whoever has it can join, so hand it to nobody else.
      </Text>
      <CopyField value={joinString} what="join string" />
      <Tabs defaultValue="app" variant="outline">
        <Tabs.List mb="sm" className="tabs-line">
          <Tabs.Tab value="app">App</Tabs.Tab>
          <Tabs.Tab value="unix">Linux, macOS</Tabs.Tab>
          <Tabs.Tab value="windows">Windows</Tabs.Tab>
          <Tabs.Tab value="qr">QR code</Tabs.Tab>
        </Tabs.List>
        <Tabs.Panel value="app">
          <Stack gap="xs">
            <Text size="sm">
              Where the Covey app is installed, open this address, or paste the string into the app.
            </Text>
            <CopyField value={linkOf(joinString)} what="address for the app" />
          </Stack>
        </Tabs.Panel>
        <Tabs.Panel value="unix">
          <Stack gap="xs">
            <Text size="sm">In a terminal, where Covey runs already:</Text>
            <CodeBlock value={`covey join '${joinString}'`} what="command where Covey runs" />
            <Text size="sm">Where it does not run yet; this starts it:</Text>
            <CodeBlock
              value={`echo '${joinString}' | covey worker --join -`}
              what="command that starts Covey"
            />
            <CommandName />
          </Stack>
        </Tabs.Panel>
        <Tabs.Panel value="windows">
          <Stack gap="xs">
            <Text size="sm">In PowerShell, where Covey runs already:</Text>
            <CodeBlock value={`covey join "${joinString}"`} what="command where Covey runs" />
            <Text size="sm">Where it does not run yet; this starts it:</Text>
            <CodeBlock value={`"${joinString}" | covey worker --join -`} what="command that starts Covey" />
            <CommandName />
          </Stack>
        </Tabs.Panel>
        <Tabs.Panel value="qr">
          <Stack gap="xs">
            <Text size="sm">For a machine with a camera: the address for the app.</Text>
            <QrCode text={linkOf(joinString)} />
          </Stack>
        </Tabs.Panel>
      </Tabs>
    </Stack>
  );
}

function linkOf(joinString: string): string {
  return `covey://join/${encodeURIComponent(joinString)}`;
}

/** Drawn as one path: the page's policy allows no inline markup, and none is needed. */
function QrCode({ text }: { readonly text: string }) {
  const { size, path } = useMemo(() => {
    const code = encode(text, { border: 0 });
    const dark = code.data.flatMap((row, y) =>
      row.flatMap((isDark, x) => (isDark ? `M${x} ${y}h1v1h-1z` : [])),
    );
    return { size: code.size, path: dark.join('') };
  }, [text]);
  return (
    <svg
      className={classes['qr']}
      viewBox={`0 0 ${size} ${size}`}
      role="img"
      aria-label="QR code of the address for the app"
      shapeRendering="crispEdges"
    >
      <path d={path} fill="#000" />
    </svg>
  );
}

function Digits() {
  const status = useStatus().data;
  const name = status === undefined ? 'this controller' : plainText(status.name);
  return (
    <Stack>
      <Text size="sm">Without any secret, when somebody is at both machines:</Text>
      <List type="ordered" size="sm" spacing="xs">
        <List.Item>
          On the other machine choose &ldquo;Join&rdquo; in the Covey app, or run <code>covey join</code>{' '}
          there. It finds {name} by itself in the same network.
        </List.Item>
        <List.Item>
          It shows six digits. It also appears on this page, under &ldquo;asks to join&rdquo;.
        </List.Item>
        <List.Item>Type the digits here and press Approve.</List.Item>
        <List.Item>Confirm at the other machine that the digits were taken.</List.Item>
      </List>
      {status?.clusterAddress != null && <Address of={plainText(status.clusterAddress)} />}
      <CommandName />
    </Stack>
  );
}

/** A controller that listens on all its addresses does not know which of them another machine would reach. */
function Address({ of }: { readonly of: string }) {
  const ask = 'If it does not find this controller, tell it where it is:';
  if (reachOf(of) !== 'network') {
    return (
      <>
        <Text size="sm">{ask}</Text>
        <CodeBlock value={`covey join ${of}`} what="command with the address" />
      </>
    );
  }
  return (
    <Text size="sm">
      {ask} by the address of this computer in your network and the port, as in{' '}
      <code>covey join 192.168.1.10:{portOf(of)}</code>.
    </Text>
  );
}
