import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { openSettings } from '../../../src-main/nodejs/settings/settings-store.ts';
import { CoveyError } from '../../../src-main/shared/errors.ts';
import { settingsSchema } from '../../../src-main/shared/settings.ts';
import { readCorpus } from '../corpus.ts';
import { mutateJsonText } from '../mutate.ts';
import type { Random } from '../random.ts';
import type { FuzzTarget } from '../target.ts';

/** `config.json` as anybody may have written it, and changes by `/api/settings`. */
export function createTarget(): FuzzTarget {
  const corpus = readCorpus('settings.jsonl');
  const directory = mkdtempSync(path.join(os.tmpdir(), 'covey-fuzz-config-'));
  const file = path.join(directory, 'config.json');
  return {
    async run(random: Random) {
      writeFileSync(file, mutateJsonText(random, corpus));
      const store = await openSettings(directory).catch((error: unknown) => {
        if (!(error instanceof CoveyError) || error.code !== 'config_invalid') throw error;
        if (!error.message.includes(file)) throw new Error(`does not name the file: ${error.message}`);
        return null;
      });
      if (!store) return;
      settingsSchema.parse(store.current);
      // A change is written and flushed, which is slow.
      if (!random.oneIn(20)) return;
      const patch = parse(mutateJsonText(random, corpus));
      await store.patch(patch).catch((error: unknown) => {
        if (error instanceof CoveyError && ['setting_unknown', 'invalid_request'].includes(error.code))
          return;
        throw error;
      });
      settingsSchema.parse(store.current);
      // What was accepted can be read at the next start.
      const again = await openSettings(directory);
      settingsSchema.parse(again.current);
    },
    close: () => rmSync(directory, { recursive: true, force: true }),
  };
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
