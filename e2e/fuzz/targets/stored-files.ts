import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { readApiAccess } from '../../../src-main/nodejs/access/local-access.ts';
import { readClusterSecret } from '../../../src-main/nodejs/cluster-secret-file.ts';
import { membershipSchema, readMembership } from '../../../src-main/nodejs/membership.ts';
import { CoveyError } from '../../../src-main/shared/errors.ts';
import { readCorpus } from '../corpus.ts';
import { mutateJsonText } from '../mutate.ts';
import type { Random } from '../random.ts';
import type { FuzzTarget } from '../target.ts';

/** Files of the data directory that were damaged or edited: read as they should be, or refused by name. */
export function createTarget(): FuzzTarget {
  const corpus = readCorpus('stored-files.jsonl');
  const directory = mkdtempSync(path.join(os.tmpdir(), 'covey-fuzz-files-'));
  const refused = (error: unknown): null => {
    if (error instanceof CoveyError && error.code === 'data_directory_unusable') return null;
    throw error;
  };
  return {
    async run(random: Random) {
      const name = random.pick(['membership.json', 'api-access.json', 'cluster-secret']);
      const file = path.join(directory, name);
      const text = mutateJsonText(random, corpus);
      writeFileSync(file, text);
      if (name === 'membership.json') {
        const membership = await readMembership(directory).catch(refused);
        if (membership) membershipSchema.parse(membership);
      } else if (name === 'api-access.json') {
        const access = readApiAccess(directory);
        if (access && access.apiAddress !== null) {
          const { hostname } = new URL(access.apiAddress);
          if (hostname !== '127.0.0.1' && hostname !== '[::1]') throw new Error(`would talk to ${hostname}`);
        }
      } else {
        await readClusterSecret(directory).catch(refused);
      }
    },
    close: () => rmSync(directory, { recursive: true, force: true }),
  };
}
