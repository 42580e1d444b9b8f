import type { DatasetWork, Seek } from '#shared/domain/task.ts';
import { CoveyError } from '#shared/errors.ts';
import { headerOf, openDataset, scanRecords } from './scan.ts';

/** Places that are kept: with these the index stays well within 64 KiB of JSON. */
const maxSeeks = 1024;

/** How many records a dataset has, and where some of them begin: spread evenly, in order, the first included. */
export interface DatasetIndex {
  readonly records: number;
  readonly seeks: readonly Seek[];
}

/**
 * Reads a dataset once from end to end.
 * @param onProgress 0..1
 * @throws CoveyError `dataset_invalid`, `cancelled`
 */
export async function buildIndex(
  path: string,
  dataset: DatasetWork,
  signal: AbortSignal,
  onProgress: (fraction: number) => void,
): Promise<DatasetIndex> {
  const file = await openDataset(path);
  try {
    const { size } = await file.stat();
    if (dataset.format === 'binary') {
      const recordBytes = dataset.recordBytes ?? 1;
      if (size % recordBytes !== 0) {
        const message = `the dataset has ${size} bytes, which is no whole number of records of ${recordBytes}`;
        throw new CoveyError('dataset_invalid', message, { field: 'dataset.recordBytes' });
      }
      return { records: size / recordBytes, seeks: [] };
    }
    const start = (await headerOf(file, dataset, signal))?.to ?? 0;
    let records = 0;
    let every = 1;
    let seeks: Seek[] = size > start ? [{ record: 0, byte: start }] : [];
    await scanRecords(
      file,
      dataset.format,
      start,
      (end) => {
        records += 1;
        if (records % every !== 0 || end >= size) return true;
        seeks.push({ record: records, byte: end });
        if (seeks.length >= maxSeeks) {
          every *= 2;
          seeks = seeks.filter(({ record }) => record % every === 0);
        }
        return true;
      },
      signal,
      (byte) => onProgress(byte / Math.max(1, size)),
    );
    return { records, seeks };
  } finally {
    await file.close();
  }
}
