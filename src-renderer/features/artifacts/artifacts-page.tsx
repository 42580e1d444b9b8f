import { useRef } from 'react';
import { Alert, Button, Stack, Text } from '@mantine/core';
import { IconFolderUp, IconPackages, IconRecycle, IconUpload } from '@tabler/icons-react';
import type { ApiAnswer } from '#shared/api/calls.ts';
import { useApi } from '../../app/api-context.ts';
import { confirm } from '../../components/confirm.tsx';
import { Meter } from '../../components/meter.tsx';
import { Page, Section } from '../../components/page.tsx';
import { EmptyState, ErrorState, LoadingRows } from '../../components/states.tsx';
import { toastError } from '../../components/toasts.tsx';
import { CoveyError } from '#shared/errors.ts';
import { formatBytes, formatDuration, plural } from '../../format/format.ts';
import { useAction, useRead } from '../../queries/queries.ts';
import { useNow } from '../../stores/clock.ts';
import { useIsStale } from '../../stores/connection.ts';
import { ArtifactTable } from './artifact-table.tsx';
import classes from './artifacts.module.css';
import { UploadList } from './upload-list.tsx';
import { fileSource, folderSource, sourceProblem, type UploadSource } from './upload.ts';
import { startUpload } from './uploads.ts';

/** Files and folders that jobs need or made: what there is, who has it, how it comes and goes. */
export function ArtifactsPage() {
  // What is said of all; the table asks for its rows.
  const { data, error, refetch } = useRead('artifacts', { query: { limit: '1', partial: '0' } });
  const choose = <UploadButtons />;
  return (
    <Page
      title="Artifacts"
      lead="Files and folders that jobs work on, and what they made."
      actions={data !== undefined && !isEmpty(data) ? choose : null}
    >
      <Stack gap="md">
        <UploadList />
        {error !== null && data === undefined ? (
          <ErrorState title="The artifacts are not known" error={error} onRetry={() => void refetch()} />
        ) : data === undefined ? (
          <LoadingRows />
        ) : isEmpty(data) ? (
          <Section title="All artifacts">
            <EmptyState icon={IconPackages} title="There is nothing yet" action={choose}>
              Put a file of numbers or records, a program or a folder into the covey, and jobs can work on it.
              What jobs make shows here too.
            </EmptyState>
          </Section>
        ) : (
          <>
            <Room data={data} />
            <Section title="All artifacts" flush lead={countText(data)}>
              <ArtifactTable />
            </Section>
          </>
        )}
      </Stack>
    </Page>
  );
}

function isEmpty({ total, leftOut }: ApiAnswer<'artifacts'>): boolean {
  return total === 0 && leftOut === undefined;
}

function countText({ total, leftOut }: ApiAnswer<'artifacts'>): string {
  const count = plural(total, 'artifact');
  if (leftOut === undefined) return count;
  return `${count}, and ${formatBytes(leftOut.bytes)} of ${plural(leftOut.count, 'partial result')} or what nothing needs`;
}

function UploadButtons() {
  const api = useApi();
  const isStale = useIsStale();
  const file = useRef<HTMLInputElement>(null);
  const folder = useRef<HTMLInputElement>(null);
  const begin = (sources: readonly UploadSource[]): void => {
    for (const source of sources) {
      const problem = sourceProblem(source);
      if (problem === null) void startUpload(api, source);
      else toastError('It was not uploaded', new CoveyError('artifact_invalid', problem));
    }
  };
  const chosen = (input: HTMLInputElement): File[] => {
    const files = [...(input.files ?? [])];
    // The same can be chosen again.
    input.value = '';
    return files;
  };
  return (
    <>
      <Button
        variant="default"
        disabled={isStale}
        leftSection={<IconFolderUp size={16} aria-hidden />}
        onClick={() => folder.current?.click()}
      >
        Upload a folder
      </Button>
      <Button
        disabled={isStale}
        leftSection={<IconUpload size={16} aria-hidden />}
        onClick={() => file.current?.click()}
      >
        Upload files
      </Button>
      <input
        ref={file}
        type="file"
        multiple
        hidden
        aria-label="Files to upload"
        onChange={(event) => begin(chosen(event.currentTarget).map(fileSource))}
      />
      <input
        ref={folder}
        type="file"
        webkitdirectory=""
        hidden
        aria-label="Folder to upload"
        onChange={(event) => begin([folderSource(chosen(event.currentTarget))])}
      />
    </>
  );
}

/** How much of its place is used, and what a clean-up would free. */
function Room({ data }: { readonly data: ApiAnswer<'artifacts'> }) {
  const { usedBytes, quotaBytes, unneeded } = data;
  const isStale = useIsStale();
  const collect = useAction('collectArtifacts', {
    failed: 'The clean-up did not work',
    changes: ['artifacts'],
    done: ({ removed, freedBytes }) =>
      removed === 0 && freedBytes === 0
        ? 'There was nothing to clean up.'
        : `${plural(removed, 'artifact')} removed, ${formatBytes(freedBytes)} freed.`,
  });
  const now = useNow(60_000);
  const ask = async (): Promise<void> => {
    const yes = await confirm({
      title: 'Clean up?',
      body: (
        <>
          {plural(unneeded.due, 'artifact')} that no job needs and nobody keeps, up to{' '}
          {formatBytes(unneeded.dueBytes)}, and what is left of uploads that were never finished. What other
          artifacts share with them stays.
        </>
      ),
      action: 'Clean up',
      danger: unneeded.due > 0,
    });
    if (yes) collect.mutate({ timeoutMs: 120_000 });
  };
  const share = quotaBytes === 0 ? 0 : usedBytes / quotaBytes;
  const text = `${formatBytes(usedBytes)} of ${formatBytes(quotaBytes)} used`;
  return (
    <Section
      title="Room on the controller"
      actions={
        <Button
          variant="default"
          disabled={isStale}
          loading={collect.isPending}
          leftSection={<IconRecycle size={16} aria-hidden />}
          onClick={() => void ask()}
        >
          Clean up
        </Button>
      }
    >
      <div className={classes['room']}>
        <Meter
          label="Room for artifacts"
          used={usedBytes}
          total={quotaBytes}
          text={text}
          tone={share > 0.95 ? 'bad' : share > 0.8 ? 'warn' : 'normal'}
        />
        <Text size="sm" className="number">
          {text} · {freesText(unneeded, now)}
        </Text>
        {share > 0.95 && (
          <Alert color="red" title="There is hardly room left">
            Remove artifacts or finished jobs, then clean up.
          </Alert>
        )}
      </div>
    </Section>
  );
}

function freesText(
  { due, dueBytes, later, laterBytes, nextAt }: ApiAnswer<'artifacts'>['unneeded'],
  now: number,
): string {
  if (due > 0) return `a clean-up frees up to ${formatBytes(dueBytes)} of ${plural(due, 'artifact')}`;
  if (later === 0 || nextAt === null) return 'everything is needed';
  return `${formatBytes(laterBytes)} of ${plural(later, 'artifact')} can go, the first in ${formatDuration(nextAt - now)}`;
}
