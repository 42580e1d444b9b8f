import { useRef, useState } from 'react';
import { Button } from '@mantine/core';
import { IconDownload, IconX } from '@tabler/icons-react';
import { EVENTS_PER_PAGE, type ApiEvent } from '#shared/api/schema.ts';
import { CoveyError } from '#shared/errors.ts';
import type { ApiClient } from '../../api-client/api-client.ts';
import { useApi } from '../../app/api-context.ts';
import { toastError } from '../../components/toasts.tsx';
import { formatCount } from '../../format/format.ts';
import { historyQuery, type EventFilter } from './event-window.ts';

/** All events that the filter lets through, as a file with one JSON object a line, the newest first. */
export function DownloadEvents({ filter }: { readonly filter: EventFilter }) {
  const api = useApi();
  const [count, setCount] = useState<number | null>(null);
  const abort = useRef<AbortController | null>(null);
  const start = async (): Promise<void> => {
    const stop = new AbortController();
    abort.current = stop;
    setCount(0);
    try {
      const parts = await readAll(api, filter, stop.signal, setCount);
      saveAs('covey-events.jsonl', parts, 'application/x-ndjson');
    } catch (error) {
      toastError('The events were not downloaded', CoveyError.from(error));
    } finally {
      setCount(null);
    }
  };
  return count === null ? (
    <Button
      variant="default"
      size="compact-sm"
      leftSection={<IconDownload size={16} aria-hidden />}
      onClick={() => void start()}
    >
      Download
    </Button>
  ) : (
    <Button
      variant="default"
      size="compact-sm"
      leftSection={<IconX size={16} aria-hidden />}
      aria-label={`${formatCount(count)} read, cancel the download`}
      onClick={() => abort.current?.abort()}
    >
      {formatCount(count)} read
    </Button>
  );
}

async function readAll(
  api: ApiClient,
  filter: EventFilter,
  signal: AbortSignal,
  onCount: (count: number) => void,
): Promise<string[]> {
  const parts: string[] = [];
  let before: number | null = null;
  let count = 0;
  for (;;) {
    const query = historyQuery(filter, before, EVENTS_PER_PAGE);
    const { events, more }: { events: ApiEvent[]; more: boolean } = await api.call('eventHistory', {
      query,
      signal,
    });
    parts.push(events.map((event) => `${JSON.stringify(event)}\n`).join(''));
    onCount((count += events.length));
    before = events.at(-1)?.id ?? null;
    if (!more || before === null) return parts;
  }
}

/** Through a link that is pressed: the page has no other way to a file. */
export function saveAs(name: string, parts: readonly string[], type: string): void {
  const url = URL.createObjectURL(new Blob([...parts], { type }));
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  // The browser reads it after the press.
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
