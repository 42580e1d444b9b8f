import { useRef, useState } from 'react';
import { ActionIcon, Button } from '@mantine/core';
import { IconDownload, IconX } from '@tabler/icons-react';
import type { ArtifactStake } from '#shared/domain/artifact.ts';
import { CoveyError } from '#shared/errors.ts';
import type { ApiClient } from '../../api-client/api-client.ts';
import { useApi } from '../../app/api-context.ts';
import { toastError } from '../../components/toasts.tsx';
import { formatPercent } from '../../format/format.ts';
import { plainText } from '../../format/plain-text.ts';

/** So long without a byte is a connection that is gone. */
const silenceMs = 60_000;
/** From this size on it is written to the disk as it comes, where the browser can do that. */
const streamFromBytes = 256 * 1024 * 1024;

type Named = ArtifactStake & { readonly name: string };

/** What can be downloaded: an artifact, or all results of a job together. */
export interface Downloaded {
  readonly path: `/api/${string}`;
  /** Of the file that it becomes. */
  readonly fileName: string;
  /** Without what a tar adds. */
  readonly bytes: number;
  readonly name: string;
}

/** A file as it is, a folder as tar. */
function fromArtifact({ id, kind, bytes, name }: Named): Downloaded {
  const fileName = safeFileName(kind === 'tree' ? `${name}.tar` : name);
  return { path: `/api/artifacts/${encodeURIComponent(id)}/content`, fileName, bytes, name };
}

interface SavePicker {
  readonly showSaveFilePicker?: (options: {
    readonly suggestedName: string;
  }) => Promise<{ createWritable(): Promise<WritableStream<Uint8Array>> }>;
}

async function download(
  api: ApiClient,
  { path, fileName, bytes }: Downloaded,
  signal: AbortSignal,
  onShare: (share: number) => void,
): Promise<void> {
  const { showSaveFilePicker } = window as SavePicker;
  // Asked for first: the browser allows it only right after the button was pressed.
  const file =
    bytes >= streamFromBytes && showSaveFilePicker !== undefined
      ? await showSaveFilePicker({ suggestedName: fileName })
      : null;
  const silence = new AbortController();
  const give = (): void => silence.abort(new DOMException('silent for too long', 'TimeoutError'));
  let timer = setTimeout(give, silenceMs);
  const either = AbortSignal.any([signal, silence.signal]);
  const response = await api.bytes('GET', path, either);
  let done = 0;
  const counted = (response.body ?? new ReadableStream<Uint8Array>()).pipeThrough(
    new TransformStream<Uint8Array, Uint8Array>({
      transform(piece, controller) {
        done += piece.length;
        clearTimeout(timer);
        timer = setTimeout(give, silenceMs);
        onShare(bytes === 0 ? 1 : Math.min(1, done / bytes));
        controller.enqueue(piece);
      },
    }),
  );
  let blob: Blob | null = null;
  try {
    if (file !== null) await counted.pipeTo(await file.createWritable(), { signal: either });
    else
      blob = await new Response(counted, { headers: { 'content-type': 'application/octet-stream' } }).blob();
  } finally {
    clearTimeout(timer);
  }
  if (blob === null) return;
  const url = URL.createObjectURL(blob);
  const link = document.createElement('a');
  link.href = url;
  link.download = fileName;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

/** A name from elsewhere as the name of one file. */
export function safeFileName(name: string): string {
  const plain = name.replace(/[\p{Cc}\p{Cf}]/gu, '').replace(/[\\/:*?"<>|]/g, '_');
  return plain.replace(/^\.+/, '_').trim() || 'artifact';
}

/** See `Download`. */
export function DownloadButton({
  artifact,
  compact,
}: {
  readonly artifact: Named;
  readonly compact?: boolean;
}) {
  return <Download what={fromArtifact(artifact)} compact={compact === true} />;
}

/** Downloads, shows how far it is, and cancels when it is pressed again. */
export function Download({
  what,
  title = 'Download',
  compact,
}: {
  readonly what: Downloaded;
  readonly title?: string;
  readonly compact: boolean;
}) {
  const api = useApi();
  const [share, setShare] = useState<number | null>(null);
  const abort = useRef<AbortController | null>(null);
  const name = plainText(what.name);
  const start = async (): Promise<void> => {
    const stop = new AbortController();
    abort.current = stop;
    setShare(0);
    try {
      await download(api, what, stop.signal, setShare);
    } catch (error) {
      const isOurs = stop.signal.aborted || (error as Error).name === 'AbortError';
      if (!isOurs) toastError(`${name} was not downloaded`, CoveyError.from(error));
    } finally {
      setShare(null);
    }
  };
  const label =
    share === null ? `${title} ${name}` : `${formatPercent(share * 100)} of ${name}, cancel the download`;
  const act = (): void => {
    if (share === null) void start();
    else abort.current?.abort();
  };
  if (compact) {
    return (
      <ActionIcon variant="subtle" color="gray" aria-label={label} title={label} onClick={act}>
        {share === null ? <IconDownload size={16} /> : <IconX size={16} />}
      </ActionIcon>
    );
  }
  return (
    <Button
      variant="default"
      size="compact-sm"
      leftSection={share === null ? <IconDownload size={14} aria-hidden /> : <IconX size={14} aria-hidden />}
      aria-label={label}
      onClick={act}
    >
      {share === null ? title : formatPercent(share * 100)}
    </Button>
  );
}
