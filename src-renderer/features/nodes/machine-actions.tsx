import { useState } from 'react';
import { ActionIcon, Button, Group, Menu, Modal, Stack, TextInput } from '@mantine/core';
import {
  IconDotsVertical,
  IconPencil,
  IconPlayerPause,
  IconPlayerPlay,
  IconTrash,
  IconTransferOut,
} from '@tabler/icons-react';
import { renameBodySchema } from '#shared/api/dashboard.ts';
import type { NodeView } from '#shared/api/schema.ts';
import { confirm } from '../../components/confirm.tsx';
import { toastUndo } from '../../components/toasts.tsx';
import { plural } from '../../format/format.ts';
import { plainText } from '../../format/plain-text.ts';
import { useAction } from '../../queries/queries.ts';
import { useIsStale } from '../../stores/connection.ts';

const changes = ['nodes', 'deployments', 'status'] as const;

/** What can be done with a machine: the next step as a button, everything else behind it. */
export function MachineActions({
  node,
  onRemoved,
}: {
  readonly node: NodeView;
  readonly onRemoved?: () => void;
}) {
  const name = plainText(node.name);
  const params = { node: node.id };
  const isStale = useIsStale();
  const [renaming, setRenaming] = useState(false);
  const resume = useAction('resume', { failed: `Could not resume ${name}`, changes });
  const drain = useAction('drain', { failed: `Could not drain ${name}`, changes });
  const pause = useAction('pause', { failed: `Could not pause ${name}`, changes });
  const remove = useAction('removeNode', {
    failed: `Could not remove ${name}`,
    done: () => `${name} was removed.`,
    changes: [...changes, 'models', 'links'],
  });
  const isHeld = node.drain !== null || node.pausedAt !== null;
  const undo = (): void => resume.mutate({ params });

  const askAndDrain = async (): Promise<void> => {
    const runs = node.deployments.length;
    const yes =
      runs === 0 ||
      (await confirm({
        title: `Drain ${name}?`,
        body:
          runs === 1
            ? 'It takes nothing new. The model that runs there finishes its requests and is then loaded again on other machines, if they have room.'
            : `It takes nothing new. The ${plural(runs, 'model')} that run there finish their requests and are then loaded again on other machines, if they have room.`,
        action: 'Drain',
      }));
    if (yes) {
      drain.mutate({ params, body: {} }, { onSuccess: () => toastUndo(`${name} is draining.`, undo) });
    }
  };
  const askAndRemove = async (): Promise<void> => {
    const yes = await confirm({
      title: `Remove ${name}?`,
      body: 'It leaves the covey at once and what runs there ends. Its files stay on it. To come back it has to join again.',
      action: 'Remove',
      danger: true,
    });
    if (yes) remove.mutate({ params }, { onSuccess: () => onRemoved?.() });
  };

  return (
    <Group gap={4} wrap="nowrap">
      {isHeld && (
        <Button
          size="compact-sm"
          variant="light"
          disabled={isStale}
          loading={resume.isPending}
          leftSection={<IconPlayerPlay size={14} aria-hidden />}
          aria-label={`Resume ${name}`}
          onClick={undo}
        >
          Resume
        </Button>
      )}
      <Menu position="bottom-end" withinPortal>
        <Menu.Target>
          <ActionIcon variant="subtle" color="gray" aria-label={`Actions for ${name}`}>
            <IconDotsVertical size={16} />
          </ActionIcon>
        </Menu.Target>
        <Menu.Dropdown>
          {!isHeld && (
            <Menu.Item
              disabled={isStale}
              leftSection={<IconPlayerPause size={16} aria-hidden />}
              onClick={() =>
                pause.mutate({ params }, { onSuccess: () => toastUndo(`${name} takes no new work.`, undo) })
              }
            >
              Pause: no new work
            </Menu.Item>
          )}
          {node.drain === null && (
            <Menu.Item
              disabled={isStale}
              leftSection={<IconTransferOut size={16} aria-hidden />}
              onClick={() => void askAndDrain()}
            >
              Drain: move its work away
            </Menu.Item>
          )}
          <Menu.Item
            disabled={isStale}
            leftSection={<IconPencil size={16} aria-hidden />}
            onClick={() => setRenaming(true)}
          >
            Rename …
          </Menu.Item>
          <Menu.Divider />
          <Menu.Item
            color="red"
            disabled={isStale}
            leftSection={<IconTrash size={16} aria-hidden />}
            onClick={() => void askAndRemove()}
          >
            Remove …
          </Menu.Item>
        </Menu.Dropdown>
      </Menu>
      {renaming && <RenameDialog node={node} onClose={() => setRenaming(false)} />}
    </Group>
  );
}

/** Said while one types; an empty field is no mistake yet. */
function nameProblem(name: string): string | null {
  const parsed = renameBodySchema.safeParse({ name: name.trim() });
  if (parsed.success || name.trim() === '') return null;
  const length = [...name.trim()].length;
  return length > 64
    ? `64 characters at most; these are ${length}.`
    : 'Letters, digits, dots, dashes and underscores, beginning with a letter or digit.';
}

function RenameDialog({ node, onClose }: { readonly node: NodeView; readonly onClose: () => void }) {
  const [name, setName] = useState(node.name);
  const problem = nameProblem(name);
  const rename = useAction('renameNode', { failed: null, changes: [...changes, 'models', 'links'] });
  return (
    <Modal
      opened
      onClose={onClose}
      title={`Rename ${plainText(node.name)}`}
      closeButtonProps={{ 'aria-label': 'Close' }}
    >
      <form
        onSubmit={(event) => {
          event.preventDefault();
          rename.mutate({ params: { node: node.id }, body: { name: name.trim() } }, { onSuccess: onClose });
        }}
      >
        <Stack>
          <TextInput
            label="Name"
            description="Letters, digits, dots, dashes and underscores."
            data-autofocus
            value={name}
            onChange={(event) => setName(event.currentTarget.value)}
            error={problem ?? (rename.error === null ? null : plainText(rename.error.message))}
          />
          <Group justify="flex-end">
            <Button variant="default" onClick={onClose}>
              Cancel
            </Button>
            <Button
              type="submit"
              loading={rename.isPending}
              disabled={name.trim() === '' || name.trim() === node.name || problem !== null}
            >
              Rename
            </Button>
          </Group>
        </Stack>
      </form>
    </Modal>
  );
}
