import { useMemo, useState } from 'react';
import { Button, Group, Modal, Select, Stack, Text } from '@mantine/core';
import { IconDownload } from '@tabler/icons-react';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import type { JobLog } from '#shared/api/jobs.ts';
import type { TaskView } from '#shared/domain/job.ts';
import type { CoveyError } from '#shared/errors.ts';
import { useApi } from '../../app/api-context.ts';
import { ErrorState, LoadingRows } from '../../components/states.tsx';
import { StatusMark } from '../../components/status.tsx';
import { formatBytes } from '../../format/format.ts';
import { plainText } from '../../format/plain-text.ts';
import { useRead } from '../../queries/queries.ts';
import { saveAs } from '../events/download.tsx';
import { outcomeWords, sentence, timeText } from './job-words.ts';
import classes from './jobs.module.css';
import { terminalText } from './terminal-text.ts';

/** What an attempt that runs prints is on its machine: it is asked for while somebody reads it. */
const followMs = 2_000;

/** The attempts at one partition, and what each of them printed. */
export function Attempts(props: {
  readonly jobId: string;
  /** What it is called: a partition, a rank. */
  readonly part: string;
  readonly index: number;
  readonly onClose: () => void;
}) {
  const { jobId, part, index, onClose } = props;
  const { data, error } = useRead('tasks', { query: { job: jobId, index: String(index) } });
  const [chosen, setChosen] = useState<number | null>(null);
  const tasks = data?.tasks ?? [];
  const task = tasks.find(({ attempt }) => attempt === chosen) ?? tasks[0];
  return (
    <Modal
      opened
      size="xl"
      onClose={onClose}
      title={`${sentence(part)} ${index}`}
      closeButtonProps={{ 'aria-label': 'Close' }}
    >
      {error !== null ? (
        <ErrorState title="Its attempts are not known" error={error} />
      ) : data === undefined ? (
        <LoadingRows />
      ) : task === undefined ? (
        <Text size="sm">No attempt at it is kept.</Text>
      ) : (
        <Stack gap="sm">
          {tasks.length > 1 && (
            <Select
              label="Attempt"
              description="The newest first"
              allowDeselect={false}
              maw={360}
              data={tasks.map(({ attempt, nodeName, outcome }) => ({
                value: String(attempt),
                label: `${attempt} on ${plainText(nodeName)}: ${outcomeWords[outcome][0].toLowerCase()}`,
              }))}
              value={String(task.attempt)}
              onChange={(value) => setChosen(Number(value))}
            />
          )}
          <Facts task={task} />
          <Log key={task.id} jobId={jobId} task={task} />
        </Stack>
      )}
    </Modal>
  );
}

function Facts({ task }: { readonly task: TaskView }) {
  const { attempt, nodeName, outcome, speculative, startedAt, endedAt, error, exitCode, usage } = task;
  const [word, tone] = outcomeWords[outcome];
  const parts = [`attempt ${attempt} on ${plainText(nodeName)}`];
  if (speculative) parts.push('a second copy');
  if (startedAt !== null && endedAt !== null) parts.push(`ran for ${timeText(endedAt - startedAt)}`);
  if (exitCode !== null) parts.push(`exit code ${exitCode}`);
  if (usage?.cpuMs != null) parts.push(`${timeText(usage.cpuMs)} of processor time`);
  if (usage?.peakBytes != null) parts.push(`${formatBytes(usage.peakBytes)} of memory`);
  return (
    <div>
      <Group gap="sm">
        <StatusMark tone={tone}>{word}</StatusMark>
        <Text size="sm">{parts.join(' · ')}</Text>
      </Group>
      {error !== null && (
        <Text size="sm" mt={4} className={classes['bad'] ?? ''}>
          {sentence(plainText(error.message))}
        </Text>
      )}
    </div>
  );
}

function Log({ jobId, task }: { readonly jobId: string; readonly task: TaskView }) {
  const api = useApi();
  const { data, error, refetch } = useQuery<JobLog, CoveyError>({
    queryKey: ['jobLog', jobId, task.index, task.attempt, task.outcome],
    queryFn: ({ signal }) =>
      api.call('jobLog', {
        params: { job: jobId },
        query: { index: String(task.index), attempt: String(task.attempt) },
        signal,
      }),
    refetchInterval: task.outcome === 'running' ? followMs : false,
    placeholderData: keepPreviousData,
  });
  const text = useMemo(() => terminalText(data?.output ?? ''), [data]);
  if (error !== null) {
    return <ErrorState title="Its output could not be read" error={error} onRetry={() => void refetch()} />;
  }
  if (data === undefined) return <LoadingRows />;
  return (
    <div>
      <Group justify="space-between" mb={4}>
        <Text size="sm" c="dimmed">
          {data.truncated ? 'The end of what it printed' : 'What it printed'}
        </Text>
        <Button
          size="compact-xs"
          variant="default"
          disabled={data.output === ''}
          leftSection={<IconDownload size={14} aria-hidden />}
          onClick={() => saveAs(`${jobId}-${task.index}-${task.attempt}.log`, [data.output], 'text/plain')}
        >
          Download
        </Button>
      </Group>
      <pre className={classes['output']} tabIndex={0} aria-label="What it printed">
        {text === '' ? (data.running ? 'Nothing yet.' : 'Nothing.') : text}
      </pre>
    </div>
  );
}
