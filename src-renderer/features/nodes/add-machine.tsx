import { useEffect, useMemo } from 'react';
import { Button, List, Modal, Stack, Tabs, Text } from '@mantine/core';
import { encode } from 'uqr';
import { CodeBlock, CopyField } from '../../components/copy.tsx';
import { ErrorState, LoadingState } from '../../components/states.tsx';
import { formatDuration } from '../../format/format.ts';
import { plainText } from '../../format/plain-text.ts';
import { useAction, useStatus } from '../../queries/queries.ts';
import { useNow } from '../../stores/clock.ts';
import classes from './nodes.module.css';

/** How another machine gets in: by a join string that carries the right, or by comparing digits. */
export function AddMachine({ onClose }: { readonly onClose: () => void }) {
  return (
    <Modal
      opened
      onClose={onClose}
      title="Add a machine"
      size="lg"
      closeButtonProps={{ 'aria-label': 'Close' }}
    >
      <Tabs defaultValue="invite">
        <Tabs.List mb="md">
          <Tabs.Tab value="invite">With a join string</Tabs.Tab>
          <Tabs.Tab value="digits">By comparing digits</Tabs.Tab>
        </Tabs.List>
        <Tabs.Panel value="invite">
          <Invite />
        </Tabs.Panel>
        <Tabs.Panel value="digits">
          <Digits />
        </Tabs.Panel>
      </Tabs>
    </Modal>
  );
}

function Invite() {
  const now = useNow();
  const invite = useAction('invite', { failed: null });
  const { mutate } = invite;
  useEffect(() => mutate({}), [mutate]);
  const { data, error } = invite;
  if (error !== null) {
    return <ErrorState title="There is no join string" error={error} onRetry={() => mutate({})} />;
  }
  if (data === undefined) return <LoadingState what="a join string" />;
  const leftMs = data.expiresAt - now;
  if (leftMs <= 0) {
    return (
      <Stack align="flex-start">
        <Text size="sm">This join string has expired.</Text>
        <Button onClick={() => mutate({})}>Make another one</Button>
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
          </Stack>
        </Tabs.Panel>
        <Tabs.Panel value="windows">
          <Stack gap="xs">
            <Text size="sm">In PowerShell, where Covey runs already:</Text>
            <CodeBlock value={`covey join "${joinString}"`} what="command where Covey runs" />
            <Text size="sm">Where it does not run yet; this starts it:</Text>
            <CodeBlock value={`"${joinString}" | covey worker --join -`} what="command that starts Covey" />
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
      {status?.clusterAddress != null && (
        <>
          <Text size="sm">If it does not find this controller, tell it where it is:</Text>
          <CodeBlock
            value={`covey join ${plainText(status.clusterAddress)}`}
            what="command with the address"
          />
        </>
      )}
    </Stack>
  );
}
