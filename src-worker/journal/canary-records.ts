import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import type { CanaryRecord } from '../agent/events.ts';

/** Models remembered; the one recorded longest ago goes first. */
const maxRecords = 512;

const fileSchema = z.object({
  version: z.literal(1),
  records: z
    .array(z.tuple([z.string().max(128), z.object({ token: z.number().int(), margin: z.number() })]))
    .max(maxRecords),
});

export interface CanaryRecords {
  get(modelHash: string): CanaryRecord | null;
  set(modelHash: string, record: CanaryRecord): void;
}

/**
 * What each model answered to the canary prompt the first time it loaded here, in `<journal>/canary.json`. A
 * file that cannot be read counts as empty: the record only sharpens a check.
 */
export function openCanaryRecords(journalDirectory: string): CanaryRecords {
  const path = join(journalDirectory, 'canary.json');
  const records = new Map<string, CanaryRecord>(readRecords(path));
  return {
    get: (modelHash) => records.get(modelHash) ?? null,
    set(modelHash, record) {
      records.delete(modelHash);
      records.set(modelHash, record);
      for (const oldest of records.keys()) {
        if (records.size <= maxRecords) break;
        records.delete(oldest);
      }
      mkdirSync(journalDirectory, { recursive: true, mode: 0o700 });
      writeFileSync(`${path}.new`, JSON.stringify({ version: 1, records: [...records] }), { mode: 0o600 });
      renameSync(`${path}.new`, path);
    },
  };
}

function readRecords(path: string): [string, CanaryRecord][] {
  try {
    return fileSchema.parse(JSON.parse(readFileSync(path, 'utf8'))).records;
  } catch {
    return [];
  }
}
