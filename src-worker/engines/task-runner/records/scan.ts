import { open, type FileHandle } from 'node:fs/promises';
import { CoveyError } from '#shared/errors.ts';
import type { DatasetWork, Range, Seek } from '#shared/domain/task.ts';

/** A record longer than this is taken for a file of another kind. */
export const maxRecordBytes = 64 * 1024 * 1024;
const blockBytes = 1024 * 1024;
const newline = 0x0a;
const quote = 0x22;

/** A share of a dataset as a range of its file's bytes. */
export interface Extent {
  readonly from: number;
  readonly to: number;
}

/**
 * Walks over the records of a file from byte `at`, and calls `onEnd` with the place after each (its line end
 * included); what stands after the last line end is a record too. Goes on until `onEnd` answers false. Not for
 * `binary`, whose places are known.
 * @throws CoveyError `dataset_invalid` for a record above 64 MiB, for a quote that is never closed; `cancelled`
 */
export async function scanRecords(
  file: FileHandle,
  format: 'csv' | 'jsonl' | 'text',
  at: number,
  onEnd: (end: number) => boolean,
  signal: AbortSignal,
  onProgress: (byte: number) => void = () => undefined,
): Promise<void> {
  const block = Buffer.allocUnsafe(blockBytes);
  const csv = format === 'csv';
  let quoted = false;
  let start = at;
  for (let position = at; ;) {
    signal.throwIfAborted();
    const { bytesRead } = await file.read(block, 0, blockBytes, position);
    if (bytesRead === 0) {
      // All records from there on would be taken for one.
      if (quoted) throw unclosed(start);
      if (position > start) onEnd(position);
      return;
    }
    for (let index = 0; index < bytesRead; index += 1) {
      if (csv) {
        // A quote inside a quoted field is written twice, so it opens again what it has closed.
        const byte = block[index];
        if (byte === quote) quoted = !quoted;
        if (byte !== newline || quoted) continue;
      } else {
        index = block.indexOf(newline, index);
        if (index === -1 || index >= bytesRead) break;
      }
      start = position + index + 1;
      if (!onEnd(start)) return;
    }
    position += bytesRead;
    if (position - start > maxRecordBytes) {
      if (quoted) throw unclosed(start);
      throw new CoveyError('dataset_invalid', `the record at byte ${start} is longer than 64 MiB`);
    }
    onProgress(position);
  }
}

function unclosed(at: number): CoveyError {
  return new CoveyError(
    'dataset_invalid',
    `the record at byte ${at} has a quote that is never closed: in csv a quote belongs into a quoted field, twice`,
  );
}

/**
 * Where the records [from, to) lie. `header`: the first record of a csv, which counts as none.
 * @param seek where a record at or before the first begins; null: count from the beginning
 * @throws CoveyError `dataset_invalid` when there are fewer records
 */
export async function locate(
  file: FileHandle,
  dataset: DatasetWork,
  { from, to }: Range,
  seek: Seek | null,
  signal: AbortSignal,
): Promise<{ readonly header: Extent | null; readonly records: Extent }> {
  if (dataset.format === 'binary') {
    const size = dataset.recordBytes ?? 1;
    return { header: null, records: { from: from * size, to: to * size } };
  }
  const header = await headerOf(file, dataset, signal);
  let record = seek?.record ?? 0;
  let end = seek?.byte ?? header?.to ?? 0;
  let first = record === from ? end : null;
  if (to > record) {
    await scanRecords(
      file,
      dataset.format,
      end,
      (place) => {
        record += 1;
        end = place;
        if (record === from) first = place;
        return record < to;
      },
      signal,
    );
  }
  if (first === null || record < to) {
    throw new CoveyError('dataset_invalid', `the dataset has ${record} records, not ${to}`);
  }
  return { header, records: { from: first, to: end } };
}

/** The header of a csv that has one. */
export async function headerOf(
  file: FileHandle,
  dataset: DatasetWork,
  signal: AbortSignal,
): Promise<Extent | null> {
  if (dataset.format !== 'csv' || !dataset.header) return null;
  let to = 0;
  await scanRecords(
    file,
    'csv',
    0,
    (end) => {
      to = end;
      return false;
    },
    signal,
  );
  return { from: 0, to };
}

/** Bytes of a file in pieces. */
export async function* bytesOf(
  file: FileHandle,
  { from, to }: Extent,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  for (let position = from; position < to;) {
    signal.throwIfAborted();
    const block = Buffer.allocUnsafe(Math.min(blockBytes, to - position));
    const { bytesRead } = await file.read(block, 0, block.length, position);
    if (bytesRead === 0) throw new CoveyError('dataset_invalid', `the dataset ends at byte ${position}`);
    position += bytesRead;
    yield block.subarray(0, bytesRead);
  }
}

/** The records [from, to) one by one, with their line ends. */
export async function* recordsOf(
  file: FileHandle,
  dataset: DatasetWork,
  range: Range,
  seek: Seek | null,
  signal: AbortSignal,
): AsyncGenerator<Buffer> {
  const { records } = await locate(file, dataset, range, seek, signal);
  const { format, recordBytes } = dataset;
  let rest: Buffer = Buffer.alloc(0);
  let quoted = false;
  for await (const piece of bytesOf(file, records, signal)) {
    const scanned = rest.length;
    const data: Buffer = rest.length === 0 ? Buffer.from(piece) : Buffer.concat([rest, piece]);
    let start = 0;
    if (format === 'binary') {
      const size = recordBytes ?? 1;
      for (; data.length - start >= size; start += size) yield data.subarray(start, start + size);
    } else {
      for (let index = scanned; index < data.length; index += 1) {
        if (format === 'csv') {
          const byte = data[index];
          if (byte === quote) quoted = !quoted;
          if (byte !== newline || quoted) continue;
        } else {
          index = data.indexOf(newline, index);
          if (index === -1) break;
        }
        yield data.subarray(start, index + 1);
        start = index + 1;
      }
    }
    rest = data.subarray(start);
    if (rest.length > maxRecordBytes)
      throw new CoveyError('dataset_invalid', 'a record is longer than 64 MiB');
  }
  if (rest.length > 0) yield rest;
}

export async function openDataset(path: string): Promise<FileHandle> {
  try {
    return await open(path, 'r');
  } catch (error) {
    throw new CoveyError('dataset_invalid', `the dataset could not be opened: ${String(error)}`);
  }
}
