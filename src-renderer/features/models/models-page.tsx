import { useMemo, useState } from 'react';
import { ActionIcon, Button, Menu, Stack } from '@mantine/core';
import { useMediaQuery } from '@mantine/hooks';
import {
  IconBox,
  IconDotsVertical,
  IconDownload,
  IconFileImport,
  IconStack2,
  IconTrash,
} from '@tabler/icons-react';
import type { ModelView } from '#shared/api/schema.ts';
import { confirm } from '../../components/confirm.tsx';
import { DataTable, type Column } from '../../components/data-table.tsx';
import { Page, Section } from '../../components/page.tsx';
import { EmptyState, ErrorState, LoadingRows } from '../../components/states.tsx';
import { Name } from '../../components/text.tsx';
import { formatBytes, formatCount, plural } from '../../format/format.ts';
import { plainText } from '../../format/plain-text.ts';
import { useAction, useDeployments, useModels } from '../../queries/queries.ts';
import { useIsStale } from '../../stores/connection.ts';
import { DeploymentCard } from './deployment-card.tsx';
import { GetModel } from './get-model.tsx';
import { byName, layersTotal, type LibraryEntry } from './library.ts';
import { LoadDialog } from './load-dialog.tsx';
import classes from './models-page.module.css';
import { Transfers } from './transfers.tsx';

/** What is served, what is on the disks of the machines, and how a model gets there. */
export function ModelsPage() {
  const [getting, setGetting] = useState<'pull' | 'import' | null>(null);
  const [loading, setLoading] = useState<LibraryEntry | null>(null);
  const isStale = useIsStale();
  return (
    <Page
      title="Models"
      lead="What is served to apps, and what is on the disks of your machines."
      actions={
        <>
          <Button
            variant="default"
            disabled={isStale}
            leftSection={<IconFileImport size={16} aria-hidden />}
            onClick={() => setGetting('import')}
          >
            Import a file
          </Button>
          <Button
            disabled={isStale}
            leftSection={<IconDownload size={16} aria-hidden />}
            onClick={() => setGetting('pull')}
          >
            Download
          </Button>
        </>
      }
    >
      <Stack gap="md">
        <Served />
        <Transfers />
        <Library onLoad={setLoading} onGet={() => setGetting('pull')} />
      </Stack>
      {getting !== null && <GetModel kind={getting} onClose={() => setGetting(null)} />}
      {loading !== null && <LoadDialog entry={loading} onClose={() => setLoading(null)} />}
    </Page>
  );
}

function Served() {
  const { data, error, refetch } = useDeployments();
  return (
    <Section title="Loaded">
      {error !== null && data === undefined ? (
        <ErrorState title="The loaded models are not known" error={error} onRetry={() => void refetch()} />
      ) : data === undefined ? (
        <LoadingRows />
      ) : data.deployments.length === 0 ? (
        <EmptyState icon={IconBox} title="No model is loaded">
          Load one from the library below: alone on one machine, or split over several.
        </EmptyState>
      ) : (
        <div className={classes['cards']}>
          {data.deployments.map((deployment) => (
            <DeploymentCard key={deployment.id} deployment={deployment} />
          ))}
        </div>
      )}
    </Section>
  );
}

function Library({
  onLoad,
  onGet,
}: {
  readonly onLoad: (entry: LibraryEntry) => void;
  readonly onGet: () => void;
}) {
  const isStale = useIsStale();
  const { data, error, refetch } = useModels();
  const entries = useMemo(() => byName(data?.models ?? []), [data]);
  const isNarrow = useMediaQuery('(max-width: 48em)', false, { getInitialValueInEffect: false });
  const columns: readonly Column<LibraryEntry>[] = [
    {
      id: 'name',
      title: 'Model',
      width: 'minmax(150px, 2fr)',
      sortBy: ({ name }) => name,
      cell: ({ name }) => <Name>{name}</Name>,
    },
    {
      id: 'kind',
      title: 'Kind',
      width: 'minmax(110px, 1fr)',
      sortBy: ({ info }) => info?.architecture ?? null,
      cell: ({ info }) =>
        info === null ? 'unreadable' : <Name>{`${info.architecture} ${info.fileType}`}</Name>,
    },
    {
      id: 'size',
      title: 'Size',
      width: '90px',
      align: 'right',
      sortBy: ({ fileBytes }) => fileBytes,
      cell: ({ fileBytes }) => formatBytes(fileBytes),
    },
    {
      id: 'layers',
      title: 'Layers',
      width: '92px',
      align: 'right',
      sortBy: ({ info }) => layersTotal(info),
      cell: ({ info }) => countText(layersTotal(info)),
    },
    {
      id: 'context',
      title: 'Context',
      width: '104px',
      align: 'right',
      sortBy: ({ info }) => info?.contextLength ?? null,
      cell: ({ info }) => (info === null || info.contextLength === 0 ? '' : formatCount(info.contextLength)),
    },
    {
      id: 'where',
      title: 'On',
      width: 'minmax(110px, 1.4fr)',
      sortBy: ({ copies }) => copies.length,
      cell: ({ copies }) => <Name>{copies.map((copy) => copy.nodeName).join(', ')}</Name>,
    },
    {
      id: 'actions',
      title: 'Actions',
      width: '136px',
      align: 'right',
      pinned: true,
      cell: (entry) => <RowActions entry={entry} onLoad={onLoad} />,
    },
  ];
  return (
    <Section title="Library" lead="Files on the machines, ready to be loaded." flush>
      {error !== null && data === undefined ? (
        <ErrorState title="The library is not known" error={error} onRetry={() => void refetch()} />
      ) : data === undefined ? (
        <LoadingRows />
      ) : entries.length === 0 ? (
        <EmptyState
          icon={IconStack2}
          title="No machine has a model yet"
          action={
            <Button disabled={isStale} onClick={onGet}>
              Download a model
            </Button>
          }
        >
          Download one from the hub, or import a .gguf file that a machine has already.
        </EmptyState>
      ) : isNarrow ? (
        <ul className={classes['list']} aria-label="Library">
          {entries.map((entry) => (
            <li key={entry.name} className={classes['item']}>
              <div className={classes['itemText']}>
                <Name>{entry.name}</Name>
                <span className={classes['soft']}>{describe(entry)}</span>
              </div>
              <RowActions entry={entry} onLoad={onLoad} />
            </li>
          ))}
        </ul>
      ) : (
        <DataTable
          label="Library"
          rows={entries}
          columns={columns}
          rowKey={({ name }) => name}
          rowHeight={48}
          minWidth={780}
          initialSort={{ id: 'name', descending: false }}
        />
      )}
    </Section>
  );
}

/** Nothing where it is not known. */
function countText(count: number | null): string {
  return count === null ? '' : formatCount(count);
}

/** `llama Q4_0 · 99 MiB · 12 layers · on anna, ben` */
function describe({ info, fileBytes, copies }: LibraryEntry): string {
  const where = copies.map((copy) => plainText(copy.nodeName)).join(', ');
  const kind = info === null ? [] : [`${plainText(info.architecture)} ${plainText(info.fileType)}`];
  const total = layersTotal(info);
  const layers = total === null ? [] : [plural(total, 'layer')];
  return [...kind, formatBytes(fileBytes), ...layers, `on ${where}`].join(' · ');
}

function RowActions(props: { readonly entry: LibraryEntry; readonly onLoad: (entry: LibraryEntry) => void }) {
  const { entry, onLoad } = props;
  const isStale = useIsStale();
  return (
    <span className={classes['actions']}>
      <Button
        size="compact-sm"
        variant="light"
        disabled={isStale}
        aria-label={`Load ${plainText(entry.name)}`}
        onClick={() => onLoad(entry)}
      >
        Load
      </Button>
      <More entry={entry} />
    </span>
  );
}

/** What is done with a file on one of the machines. */
function More({ entry }: { readonly entry: LibraryEntry }) {
  const remove = useAction('removeModel', {
    failed: `Could not remove ${plainText(entry.name)}`,
    done: () => `${plainText(entry.name)} was removed.`,
    changes: ['models'],
  });
  const isStale = useIsStale();
  const askAndRemove = async (copy: ModelView): Promise<void> => {
    const yes = await confirm({
      title: `Remove ${plainText(copy.name)} from ${plainText(copy.nodeName)}?`,
      body: `Its ${formatBytes(copy.fileBytes)} on the disk there are deleted. This cannot be undone; it can be downloaded or imported again.`,
      action: 'Remove',
      danger: true,
    });
    if (yes) remove.mutate({ params: { node: copy.nodeId, name: copy.name } });
  };
  return (
    <Menu position="bottom-end" withinPortal>
      <Menu.Target>
        <ActionIcon variant="subtle" color="gray" aria-label={`More for ${plainText(entry.name)}`}>
          <IconDotsVertical size={16} />
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>
        {entry.copies.map((copy) => (
          <Menu.Item
            key={copy.nodeId}
            color="red"
            disabled={isStale}
            leftSection={<IconTrash size={16} aria-hidden />}
            onClick={() => void askAndRemove(copy)}
          >
            Remove from {plainText(copy.nodeName)} …
          </Menu.Item>
        ))}
      </Menu.Dropdown>
    </Menu>
  );
}
