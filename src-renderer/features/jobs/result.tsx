import { Alert, Stack } from '@mantine/core';
import type { JobView } from '#shared/domain/job.ts';
import { CodeBlock } from '../../components/copy.tsx';
import { DataTable, type Column } from '../../components/data-table.tsx';
import { Section } from '../../components/page.tsx';
import { Name } from '../../components/text.tsx';
import { formatBytes, plural } from '../../format/format.ts';
import { plainText } from '../../format/plain-text.ts';
import { Download, DownloadButton, safeFileName, type Downloaded } from '../artifacts/download.tsx';
import { isFinished, partWord } from './job-words.ts';
import classes from './jobs.module.css';

type ResultArtifact = NonNullable<JobView['result']>['artifacts'][number];

/** The value, and what can be downloaded. */
export function JobResultSection({ job }: { readonly job: JobView }) {
  const { result } = job;
  if (result === null || !isFinished(job)) return null;
  const { value, artifacts, missing, refused = 0 } = result;
  if (value === null && artifacts.length === 0 && missing === 0) return null;
  return (
    <Section title="Result" actions={artifacts.length > 1 && <DownloadAll job={job} artifacts={artifacts} />}>
      <Stack gap="sm">
        {missing > 0 && (
          <Alert color="yellow" title="It is incomplete">
            {plural(missing, partWord(job.kind))} {missing === 1 ? 'has' : 'have'} no result.
          </Alert>
        )}
        {refused > 0 && (
          <Alert
            color="yellow"
            title={`${plural(refused, 'record')} ${refused === 1 ? 'has' : 'have'} no answer`}
          >
            {refused === 1 ? 'It has an "error" in its place' : 'They have an "error" in their places'} in the
            result, which says why: the model refused it, or it could not be read.
          </Alert>
        )}
        {value !== null && (
          <div className={classes['value']}>
            <CodeBlock value={valueText(value)} what="the result" />
          </div>
        )}
        {artifacts.length > 0 && (
          <div className={classes['toEdges']}>
            <DataTable
              label="Results"
              rows={artifacts}
              columns={columns}
              rowKey={({ name, id }) => `${name} ${id}`}
              minWidth={320}
              maxHeight={320}
            />
          </div>
        )}
      </Stack>
    </Section>
  );
}

/** As one tar. */
function DownloadAll({
  job,
  artifacts,
}: {
  readonly job: JobView;
  readonly artifacts: readonly ResultArtifact[];
}) {
  const what: Downloaded = {
    path: `/api/jobs/${encodeURIComponent(job.id)}/results`,
    fileName: safeFileName(`${job.name}.tar`),
    bytes: artifacts.reduce((sum, { bytes }) => sum + bytes, 0),
    name: `results of ${job.name}`,
  };
  return <Download what={what} title="Download all" compact={false} />;
}

function valueText(value: unknown): string {
  return plainText(typeof value === 'string' ? value : JSON.stringify(value, null, 1), true);
}

const columns: readonly Column<ResultArtifact>[] = [
  { id: 'name', title: 'Name', width: 'minmax(120px, 3fr)', cell: ({ name }) => <Name>{name}</Name> },
  { id: 'size', title: 'Size', width: '100px', align: 'right', cell: ({ bytes }) => formatBytes(bytes) },
  {
    id: 'download',
    title: 'Download',
    titleHidden: true,
    width: '60px',
    align: 'right',
    pinned: true,
    cell: (artifact) => <DownloadButton artifact={artifact} compact />,
  },
];
