import { useEffect, useRef } from 'react';
import { ActionIcon, Button, Progress, Text } from '@mantine/core';
import { IconX } from '@tabler/icons-react';
import { useQueryClient } from '@tanstack/react-query';
import { create } from 'zustand';
import type { TransferView } from '#shared/api/schema.ts';
import { StatusMark } from '../../components/status.tsx';
import { Section } from '../../components/page.tsx';
import {
  formatBytes,
  formatBytesOf,
  formatDuration,
  formatPercent,
  formatRate,
  shortened,
} from '../../format/format.ts';
import { plainText } from '../../format/plain-text.ts';
import { useAction, useNodes } from '../../queries/queries.ts';
import { useIsStale } from '../../stores/connection.ts';
import { useLive } from '../../stores/live.ts';
import classes from './transfers.module.css';

/** Those that were seen running or were begun here: how they ended shows until it is put away. */
const useWatched = create<{ readonly ids: ReadonlySet<string> }>(() => ({ ids: new Set() }));

export function watchTransfers(ids: readonly string[]): void {
  useWatched.setState((state) => {
    const added = ids.filter((id) => !state.ids.has(id));
    return added.length === 0 ? state : { ids: new Set([...state.ids, ...added]) };
  });
}

function putAway(id: string): void {
  useWatched.setState(({ ids }) => ({ ids: new Set([...ids].filter((other) => other !== id)) }));
}

/** Imports and downloads that run, and how those of a moment ago ended. */
export function Transfers() {
  const all = useLive((state) => state.transfers);
  const watched = useWatched((state) => state.ids);
  const nodes = useNodes().data?.nodes ?? [];
  useListsFollow(all);
  const shown = [...all.values()].filter(({ id, status }) => status === 'running' || watched.has(id));
  if (shown.length === 0) return null;
  return (
    <Section title="Imports and downloads">
      <ul className={classes['list']}>
        {shown.map((transfer) => (
          <Transfer
            key={transfer.id}
            transfer={transfer}
            node={nodes.find(({ id }) => id === transfer.nodeId)?.name ?? transfer.nodeId.slice(0, 12)}
          />
        ))}
      </ul>
    </Section>
  );
}

/** A model that has just arrived is to be in the list below. */
function useListsFollow(transfers: ReadonlyMap<string, TransferView>): void {
  const client = useQueryClient();
  const before = useRef(transfers);
  useEffect(() => {
    const known = before.current;
    before.current = transfers;
    const now = [...transfers.values()];
    // A small file may be there before anybody saw it come.
    const arrived = now.some(({ id, status }) => status === 'done' && known.get(id)?.status !== 'done');
    watchTransfers(now.filter(({ status }) => status === 'running').map(({ id }) => id));
    if (arrived) void client.invalidateQueries({ queryKey: ['models'] });
  }, [transfers, client]);
}

function Transfer({ transfer, node }: { readonly transfer: TransferView; readonly node: string }) {
  const { id, kind, source, status, doneBytes, totalBytes, bytesPerS } = transfer;
  const cancel = useAction('cancelTransfer', { failed: 'Could not cancel it' });
  const again = useAction('pullModel', { failed: 'Could not go on' });
  const isStale = useIsStale();
  // A download that ended early goes on where it was; a file of the machine is imported by its form.
  const isHopeless = transfer.error?.code === 'invalid_request';
  const canGoOn = kind === 'pull' && (status === 'cancelled' || (status === 'failed' && !isHopeless));
  const goOnWord = doneBytes > 0 ? 'Resume' : 'Try again';
  const goOn = (): void =>
    again.mutate(
      { body: { source, node: transfer.nodeId } },
      {
        onSuccess: (next) => {
          watchTransfers([next.id]);
          putAway(id);
        },
      },
    );
  const percent = totalBytes === null || totalBytes === 0 ? null : (doneBytes / totalBytes) * 100;
  const left = totalBytes !== null && bytesPerS ? ((totalBytes - doneBytes) / bytesPerS) * 1_000 : null;
  const facts = [
    totalBytes === null ? formatBytes(doneBytes) : formatBytesOf(doneBytes, totalBytes),
    ...(percent === null ? [] : [formatPercent(percent)]),
    ...(bytesPerS === null ? [] : [formatRate(bytesPerS)]),
    ...(left === null ? [] : [`${formatDuration(left)} left`]),
  ];
  const name = shortened(plainText(source));
  return (
    <li className={classes['transfer']}>
      <div className={classes['head']}>
        <Text size="sm" className={classes['source'] ?? ''}>
          {kind === 'pull' ? 'Download of ' : 'Import of '}
          <strong title={plainText(source)}>{name}</strong> to {plainText(node)}
        </Text>
        {status === 'running' ? (
          <Button
            size="compact-sm"
            variant="default"
            loading={cancel.isPending}
            disabled={isStale}
            aria-label={`Cancel ${name}`}
            onClick={() => cancel.mutate({ params: { id } })}
          >
            Cancel
          </Button>
        ) : (
          <span className={classes['end']}>
            <End status={status} />
            {canGoOn && (
              <Button
                size="compact-sm"
                variant="default"
                loading={again.isPending}
                disabled={isStale}
                aria-label={`${goOnWord} ${name}`}
                onClick={goOn}
              >
                {goOnWord}
              </Button>
            )}
            <ActionIcon
              variant="subtle"
              color="gray"
              aria-label={`Put ${name} away`}
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
            {facts.join(' · ')}
          </Text>
        </>
      )}
      {status === 'done' && (
        <Text size="xs" c="dimmed">
          {kind === 'pull' ? `${formatBytes(doneBytes)}, hash verified: in` : 'In'} the library
          {transfer.model === null ? '' : ` as ${plainText(transfer.model)}`}.
        </Text>
      )}
      {transfer.error !== null && status === 'failed' && (
        <Text size="sm" className={classes['error'] ?? ''}>
          {shortened(plainText(transfer.error.message), 300)}
        </Text>
      )}
      {canGoOn && doneBytes > 0 && (
        <Text size="xs" c="dimmed">
          {formatBytes(doneBytes)} have arrived and are kept.
        </Text>
      )}
    </li>
  );
}

function End({ status }: { readonly status: Exclude<TransferView['status'], 'running'> }) {
  if (status === 'done') return <StatusMark tone="good">Done</StatusMark>;
  return status === 'failed' ? (
    <StatusMark tone="bad">Failed</StatusMark>
  ) : (
    <StatusMark tone="quiet">Cancelled</StatusMark>
  );
}
