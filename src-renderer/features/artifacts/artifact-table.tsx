import { useMemo, useState } from 'react';
import {
  ActionIcon,
  Anchor,
  Badge,
  Button,
  Checkbox,
  Group,
  Menu,
  Modal,
  Stack,
  Text,
  TextInput,
} from '@mantine/core';
import { useClipboard, useDebouncedValue } from '@mantine/hooks';
import {
  IconCopy,
  IconDotsVertical,
  IconFile,
  IconFolder,
  IconInfoCircle,
  IconSearch,
  IconTrash,
} from '@tabler/icons-react';
import { artifactTitle, type ArtifactView } from '#shared/domain/artifact.ts';
import { useApi } from '../../app/api-context.ts';
import { hrefTo } from '../../app/router.ts';
import { confirm } from '../../components/confirm.tsx';
import { CopyField } from '../../components/copy.tsx';
import { DataTable, type Column, type TableSort } from '../../components/data-table.tsx';
import { EmptyState, ErrorState } from '../../components/states.tsx';
import { Ago, Name } from '../../components/text.tsx';
import { formatAgo, formatBytes, formatCount, formatDateTime, plural } from '../../format/format.ts';
import { plainText } from '../../format/plain-text.ts';
import { readKey, useAction, useRead } from '../../queries/queries.ts';
import { useRowWindow, windowRows, type WindowRow } from '../../queries/row-window.ts';
import { useNow } from '../../stores/clock.ts';
import { useIsStale } from '../../stores/connection.ts';
import classes from './artifacts.module.css';
import { DownloadButton } from './download.tsx';

/** After the last key. */
const typingMs = 200;

/**
 * All artifacts, to be sorted and searched, of which only those in sight are asked for: a job can make thousands. One
 * is looked at more closely in a dialog.
 */
export function ArtifactTable() {
  const [text, setText] = useState('');
  const [asked] = useDebouncedValue(text.trim(), typingMs);
  const [sort, setSort] = useState<TableSort>({ id: 'used', descending: true });
  const [shown, setShown] = useState<ArtifactView | null>(null);
  const [everything, setEverything] = useState(false);
  const { rows, error, refetch, onRange } = useArtifacts(asked, everything, sort);
  const columns = useMemo(() => columnsOf(setShown), []);
  const open = rows.find((row) => typeof row !== 'number' && row.id === shown?.id) ?? shown;
  if (error !== null) {
    return <ErrorState title="The artifacts are not known" error={error} onRetry={refetch} />;
  }
  return (
    <>
      <Group style={{ padding: '4px 18px 10px' }}>
        <TextInput
          style={{ flex: '1 1 200px', maxWidth: 324 }}
          aria-label="Name of the artifact"
          placeholder="Name of the artifact"
          leftSection={<IconSearch size={16} aria-hidden />}
          maxLength={256}
          value={text}
          onChange={(event) => setText(event.currentTarget.value)}
        />
        <Checkbox
          label="Partial results, and what nothing needs"
          checked={everything}
          onChange={(event) => setEverything(event.currentTarget.checked)}
        />
      </Group>
      <DataTable
        label="Artifacts"
        rows={rows}
        columns={columns}
        rowKey={keyOf}
        minWidth={934}
        maxHeight={560}
        sort={sort}
        onSort={setSort}
        onRange={onRange}
        empty={
          <EmptyState
            icon={IconSearch}
            title="No artifact fits"
            action={
              text === '' ? (
                <Button variant="default" onClick={() => setEverything(true)}>
                  Show everything
                </Button>
              ) : (
                <Button variant="default" onClick={() => setText('')}>
                  Clear the filter
                </Button>
              )
            }
          >
            {text === ''
              ? 'There are only partial results of jobs, or what nothing needs any more.'
              : 'Its name has something else in it.'}
          </EmptyState>
        }
      />
      {open !== null && typeof open !== 'number' && (
        <ArtifactDialog artifact={open} onClose={() => setShown(null)} />
      )}
    </>
  );
}

/** What fits, in this order; until that is known, what was shown before. */
function useArtifacts(text: string, everything: boolean, sort: TableSort) {
  const api = useApi();
  const { pages, error, refetch, onRange } = useRowWindow((page) => {
    const query = {
      ...page,
      ...(text === '' ? {} : { text }),
      partial: everything ? '1' : '0',
      sort: sort.id,
      descending: sort.descending ? '1' : '0',
    };
    return {
      queryKey: readKey('artifacts', { query }),
      queryFn: ({ signal }) => api.call('artifacts', { query, signal }),
    };
  });
  const known = useMemo(() => {
    const total = pages[0]?.answer.total;
    const parts = pages.map(({ from, answer }) => ({ from, rows: answer.artifacts }));
    return total === undefined ? null : windowRows(total, parts);
  }, [pages]);
  const [shown, setShown] = useState(known);
  if (known !== null && known !== shown) setShown(known);
  return { rows: shown ?? [], error: shown === null ? error : null, refetch, onRange };
}

function keyOf(row: WindowRow<ArtifactView>): string {
  return typeof row === 'number' ? String(row) : row.id;
}

/** Of one that is known. */
function cell(
  draw: (artifact: ArtifactView) => React.ReactNode,
): (row: WindowRow<ArtifactView>) => React.ReactNode {
  return (row) => (typeof row === 'number' ? null : draw(row));
}

/** Sorted where they are listed. */
const byServer = (): null => null;

function columnsOf(show: (artifact: ArtifactView) => void): Column<WindowRow<ArtifactView>>[] {
  return [
    {
      id: 'name',
      title: 'Name',
      width: 'minmax(160px, 3fr)',
      sortBy: byServer,
      cell: cell((artifact) => (
        <span className={classes['name']}>
          {artifact.kind === 'tree' ? (
            <IconFolder size={16} aria-label="Folder" role="img" />
          ) : (
            <IconFile size={16} aria-label="File" role="img" />
          )}
          <Name>{artifactTitle(artifact)}</Name>
        </span>
      )),
    },
    {
      id: 'size',
      title: 'Size',
      width: '92px',
      align: 'right',
      sortBy: byServer,
      cell: cell(({ bytes }) => formatBytes(bytes)),
    },
    {
      id: 'files',
      title: 'Files',
      width: '80px',
      align: 'right',
      sortBy: byServer,
      cell: cell(({ files }) => formatCount(files)),
    },
    {
      id: 'holders',
      title: 'Machines with it',
      width: 'minmax(168px, 2fr)',
      sortBy: byServer,
      cell: cell(({ holders }) =>
        holders.length === 0 ? (
          <Text span size="sm" c="dimmed">
            controller only
          </Text>
        ) : (
          <Name>{holders.map(({ nodeName }) => nodeName).join(', ')}</Name>
        ),
      ),
    },
    {
      id: 'jobs',
      title: 'Jobs',
      width: '70px',
      align: 'right',
      sortBy: byServer,
      cell: cell(({ jobs }) => formatCount(jobs.length)),
    },
    { id: 'kept', title: 'Kept', width: '140px', cell: cell((artifact) => <Kept artifact={artifact} />) },
    {
      id: 'used',
      title: 'Last used',
      width: '110px',
      sortBy: byServer,
      cell: cell(({ lastUsedAt }) => <Ago at={lastUsedAt} light />),
    },
    {
      id: 'actions',
      title: 'Actions',
      titleHidden: true,
      width: '92px',
      align: 'right',
      pinned: true,
      cell: cell((artifact) => <Actions artifact={artifact} onShow={() => show(artifact)} />),
    },
  ];
}

/** Why it is here, or until when. */
function Kept({ artifact: { pinned, jobs, collectableAt } }: { readonly artifact: ArtifactView }) {
  const now = useNow(60_000);
  if (pinned) return <>by you</>;
  if (jobs.length > 0) return <>by {jobs.length === 1 ? 'a job' : 'jobs'}</>;
  if (collectableAt === null) return <>—</>;
  return <>{collectableAt <= now ? 'can go' : `goes ${formatAgo(collectableAt, now)}`}</>;
}

function Actions({ artifact, onShow }: { readonly artifact: ArtifactView; readonly onShow: () => void }) {
  const name = plainText(artifact.name);
  const remove = useRemove(artifact);
  const isStale = useIsStale();
  const clipboard = useClipboard();
  return (
    <>
      <DownloadButton artifact={artifact} compact />
      <Menu position="bottom-end" withinPortal>
        <Menu.Target>
          <ActionIcon variant="subtle" color="gray" aria-label={`Actions for ${name}`}>
            <IconDotsVertical size={16} />
          </ActionIcon>
        </Menu.Target>
        <Menu.Dropdown>
          <Menu.Item leftSection={<IconInfoCircle size={16} aria-hidden />} onClick={onShow}>
            Details
          </Menu.Item>
          <Menu.Item
            leftSection={<IconCopy size={16} aria-hidden />}
            onClick={() => clipboard.copy(artifact.id)}
          >
            Copy its id
          </Menu.Item>
          {artifact.pinned && (
            <Menu.Item
              color="red"
              disabled={isStale}
              leftSection={<IconTrash size={16} aria-hidden />}
              onClick={remove}
            >
              Remove
            </Menu.Item>
          )}
        </Menu.Dropdown>
      </Menu>
    </>
  );
}

function useRemove({ id, name, jobs, bytes }: ArtifactView): () => void {
  const shown = plainText(name);
  const action = useAction('removeArtifact', {
    failed: `Could not remove ${shown}`,
    changes: ['artifacts'],
    done: () =>
      jobs.length > 0 ? `${shown} goes with the last job that needs it.` : `${shown} is let go of.`,
  });
  const ask = async (): Promise<void> => {
    const body =
      jobs.length > 0
        ? `${plural(jobs.length, 'job')} still needs it: it stays until the last of them is removed.`
        : `${formatBytes(bytes)} go with a clean-up after an hour. Until then it can be used, and the same upload brings it back at once.`;
    const yes = await confirm({ title: `Remove ${shown}?`, body, action: 'Remove', danger: true });
    if (yes) action.mutate({ params: { artifact: id } });
  };
  return () => void ask();
}

function ArtifactDialog({
  artifact,
  onClose,
}: {
  readonly artifact: ArtifactView;
  readonly onClose: () => void;
}) {
  const jobs = useRead('jobs', { query: { limit: '1000' } }).data?.jobs ?? [];
  const nameOf = (id: string): string => plainText(jobs.find((job) => job.id === id)?.name ?? id);
  const { kind, bytes, files, createdAt, lastUsedAt, holders, jobs: needed } = artifact;
  return (
    <Modal
      opened
      size="lg"
      onClose={onClose}
      title={plainText(artifact.name)}
      closeButtonProps={{ 'aria-label': 'Close' }}
    >
      <Stack>
        <dl className="facts">
          <dt>What</dt>
          <dd>
            {kind === 'tree' ? `Folder of ${plural(files, 'file')}` : 'File'}, {formatBytes(bytes)}
          </dd>
          <dt>Came</dt>
          <dd>{formatDateTime(createdAt)}</dd>
          <dt>Last used</dt>
          <dd>{formatDateTime(lastUsedAt)}</dd>
          <dt>Kept</dt>
          <dd>
            <Kept artifact={artifact} />
          </dd>
          <dt>Where</dt>
          <dd>{['controller', ...holders.map(({ nodeName }) => plainText(nodeName))].join(', ')}</dd>
          <dt>Jobs</dt>
          <dd>
            {needed.length === 0
              ? 'No job uses it.'
              : needed.slice(0, 50).map((id) => (
                  <Badge key={id} variant="light" color="gray" tt="none" mr={6} component="span">
                    <Anchor inherit href={hrefTo('jobs', id)}>
                      {nameOf(id)}
                    </Anchor>
                  </Badge>
                ))}
            {needed.length > 50 && ` and ${formatCount(needed.length - 50)} more`}
          </dd>
        </dl>
        <div>
          <Text size="sm" mb={4}>
            Its id, the SHA-256 of its content:
          </Text>
          <CopyField value={artifact.id} what="the id" />
        </div>
        <div>
          <DownloadButton artifact={artifact} />
        </div>
      </Stack>
    </Modal>
  );
}
