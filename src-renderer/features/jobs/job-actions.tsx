import { useState } from 'react';
import { ActionIcon, Button, Group, Menu, Modal } from '@mantine/core';
import {
  IconCode,
  IconCopyPlus,
  IconDotsVertical,
  IconPlayerStop,
  IconRefresh,
  IconTimeline,
  IconTrash,
} from '@tabler/icons-react';
import type { JobView } from '#shared/domain/job.ts';
import { hrefTo, navigate } from '../../app/router.ts';
import { confirm } from '../../components/confirm.tsx';
import { CodeBlock } from '../../components/copy.tsx';
import { ErrorState, LoadingRows } from '../../components/states.tsx';
import { plural } from '../../format/format.ts';
import { plainText } from '../../format/plain-text.ts';
import { useAction, useRead } from '../../queries/queries.ts';
import { useIsStale } from '../../stores/connection.ts';
import { isFinished, partWord } from './job-words.ts';

const changes = ['jobs', 'job', 'jobPartitions', 'tasks', 'artifacts'] as const;

/** The next step as a button, everything else behind it. */
export function JobActions({ job }: { readonly job: JobView }) {
  const name = plainText(job.name);
  const params = { job: job.id };
  const isStale = useIsStale();
  const [isShown, setShown] = useState(false);
  const cancel = useAction('cancelJob', { failed: `Could not cancel ${name}`, changes });
  const retry = useAction('retryJob', { failed: `Could not try ${name} again`, changes });
  const remove = useAction('removeJob', {
    failed: `Could not remove ${name}`,
    done: () => `${name} was removed.`,
    changes: ['jobs', 'artifacts'],
  });
  const { failed, done } = job.partitions;

  const askAndCancel = async (): Promise<void> => {
    const yes = await confirm({
      title: `Cancel ${name}?`,
      body: `What runs is ended. ${done === 0 ? 'Nothing of it is done yet.' : `${plural(done, partWord(job.kind))} of it ${done === 1 ? 'is' : 'are'} done and stay.`}`,
      action: 'Cancel the job',
      danger: true,
    });
    if (yes) cancel.mutate({ params });
  };
  const askAndRemove = async (): Promise<void> => {
    const yes = await confirm({
      title: `Remove ${name}?`,
      body: 'Its results go with it, unless another job needs them. Download what you want to keep.',
      action: 'Remove',
      danger: true,
    });
    if (yes) remove.mutate({ params }, { onSuccess: () => navigate(hrefTo('jobs')) });
  };

  return (
    <Group gap="xs" wrap="nowrap">
      {!isFinished(job) && (
        <Button
          variant="default"
          disabled={isStale || job.status === 'cancelling'}
          loading={cancel.isPending}
          leftSection={<IconPlayerStop size={16} aria-hidden />}
          onClick={() => void askAndCancel()}
        >
          Cancel
        </Button>
      )}
      {(job.status === 'failed' || job.status === 'cancelled') && (
        <Button
          disabled={isStale}
          loading={retry.isPending}
          leftSection={<IconRefresh size={16} aria-hidden />}
          onClick={() => retry.mutate({ params })}
        >
          {failed > 0 ? `Retry ${plural(failed, `failed ${partWord(job.kind)}`)}` : 'Go on with it'}
        </Button>
      )}
      <Menu position="bottom-end" withinPortal>
        <Menu.Target>
          <ActionIcon variant="default" size="lg" aria-label={`More actions for ${name}`}>
            <IconDotsVertical size={16} />
          </ActionIcon>
        </Menu.Target>
        <Menu.Dropdown>
          <Menu.Item
            leftSection={<IconCopyPlus size={16} aria-hidden />}
            onClick={() => navigate(`${hrefTo('jobs', 'new')}?from=${encodeURIComponent(job.id)}`)}
          >
            New job like this
          </Menu.Item>
          <Menu.Item leftSection={<IconCode size={16} aria-hidden />} onClick={() => setShown(true)}>
            Specification
          </Menu.Item>
          <Menu.Item
            leftSection={<IconTimeline size={16} aria-hidden />}
            onClick={() => navigate(`${hrefTo('events')}?job=${encodeURIComponent(job.id)}`)}
          >
            Events
          </Menu.Item>
          {isFinished(job) && (
            <Menu.Item
              color="red"
              disabled={isStale}
              leftSection={<IconTrash size={16} aria-hidden />}
              onClick={() => void askAndRemove()}
            >
              Remove
            </Menu.Item>
          )}
        </Menu.Dropdown>
      </Menu>
      {isShown && <SpecDialog id={job.id} onClose={() => setShown(false)} />}
    </Group>
  );
}

function SpecDialog({ id, onClose }: { readonly id: string; readonly onClose: () => void }) {
  const { data, error } = useRead('jobSpec', { params: { job: id } });
  return (
    <Modal
      opened
      size="lg"
      onClose={onClose}
      title="Specification"
      closeButtonProps={{ 'aria-label': 'Close' }}
    >
      {error !== null ? (
        <ErrorState title="It could not be read" error={error} />
      ) : data === undefined ? (
        <LoadingRows />
      ) : (
        <CodeBlock value={plainText(JSON.stringify(data, null, 2), true)} what="the specification" />
      )}
    </Modal>
  );
}
