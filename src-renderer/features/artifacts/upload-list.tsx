import { useEffect } from 'react';
import { ActionIcon, Button, Progress, Text } from '@mantine/core';
import { IconX } from '@tabler/icons-react';
import { useQueryClient } from '@tanstack/react-query';
import { useApi } from '../../app/api-context.ts';
import { Section } from '../../components/page.tsx';
import { StatusMark } from '../../components/status.tsx';
import {
  formatBytes,
  formatBytesOf,
  formatDuration,
  formatPercent,
  formatRate,
  plural,
} from '../../format/format.ts';
import { plainText } from '../../format/plain-text.ts';
import { useNow } from '../../stores/clock.ts';
import classes from './artifacts.module.css';
import { putAway, resumeUpload, stopUpload, useUploads, type UploadEntry } from './uploads.ts';

/** Uploads since the login: those that run, and those that ended unless only unfinished ones are wanted. */
export function UploadList({ unfinishedOnly = false }: { readonly unfinishedOnly?: boolean }) {
  const entries = useUploads((state) => state.entries);
  const shown = unfinishedOnly ? entries.filter(({ status }) => status !== 'done') : entries;
  const client = useQueryClient();
  const done = entries.filter(({ status }) => status === 'done').length;
  useEffect(() => {
    if (done > 0) void client.invalidateQueries({ queryKey: ['artifacts'] });
  }, [done, client]);
  if (shown.length === 0) return null;
  return (
    <Section title="Uploads">
      <ul className={classes['uploads']}>
        {shown.map((entry) => (
          <Upload key={entry.id} entry={entry} />
        ))}
      </ul>
    </Section>
  );
}

const steps = { preparing: 'Reading', sending: 'Sending', verifying: 'Verifying' } as const;

function Upload({ entry }: { readonly entry: UploadEntry }) {
  const api = useApi();
  const now = useNow();
  const { id, source, status, progress, bytes, error } = entry;
  const name = plainText(source.name);
  const percent =
    progress === null || progress.totalBytes === 0 ? null : (progress.doneBytes / progress.totalBytes) * 100;
  return (
    <li className={classes['upload']}>
      <div className={classes['uploadHead']}>
        <Text size="sm" className={classes['uploadName'] ?? ''}>
          <strong>{name}</strong> {source.kind === 'tree' && `${plural(source.files.length, 'file')} · `}
          {formatBytes(bytes)}
        </Text>
        {status === 'running' ? (
          <Button
            size="compact-sm"
            variant="default"
            aria-label={`Cancel the upload of ${name}`}
            onClick={() => stopUpload(id)}
          >
            Cancel
          </Button>
        ) : (
          <span className={classes['uploadEnd']}>
            {status === 'done' ? (
              <StatusMark tone="good">Uploaded</StatusMark>
            ) : (
              <>
                <StatusMark tone={status === 'failed' ? 'bad' : 'quiet'}>
                  {status === 'failed' ? 'Failed' : 'Cancelled'}
                </StatusMark>
                <Button
                  size="compact-sm"
                  variant="default"
                  aria-label={`Resume the upload of ${name}`}
                  onClick={() => void resumeUpload(api, entry)}
                >
                  Resume
                </Button>
              </>
            )}
            <ActionIcon
              variant="subtle"
              color="gray"
              aria-label={`Put the upload of ${name} away`}
              onClick={() => putAway(id)}
            >
              <IconX size={16} />
            </ActionIcon>
          </span>
        )}
      </div>
      {status === 'running' && (
        <>
          <Progress value={percent ?? 100} animated={percent === null} aria-label={`${name}, progress`} />
          <Text size="xs" mt={4} className="number">
            {progress === null ? 'Reading' : progressText(progress, now - entry.stepAt)}
          </Text>
        </>
      )}
      {error !== null && (
        <Text size="sm" className={classes['bad'] ?? ''}>
          {plainText(error.message)}
        </Text>
      )}
      {(status === 'failed' || status === 'stopped') && (
        <Text size="xs" c="dimmed">
          What has arrived is kept for a day. Resume goes on from there; after this page was closed, choose
          the same {source.kind === 'tree' ? 'folder' : 'file'} again.
        </Text>
      )}
    </li>
  );
}

function progressText(progress: NonNullable<UploadEntry['progress']>, ms: number): string {
  const { step, doneBytes, totalBytes } = progress;
  if (step === 'verifying') return 'Verifying: the controller reads it once more';
  if (totalBytes === 0) return steps[step];
  const rate = ms > 0 ? (doneBytes / ms) * 1_000 : 0;
  const left = rate > 0 ? ` · ${formatDuration(((totalBytes - doneBytes) / rate) * 1_000)} left` : '';
  const share = formatPercent((doneBytes / totalBytes) * 100);
  return `${steps[step]} · ${formatBytesOf(doneBytes, totalBytes)} · ${share} · ${formatRate(rate)}${left}`;
}
