import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { defaultSettings, type Settings } from '#shared/settings.ts';
import type { LocalAccess } from '../../nodejs/access/local-access.ts';
import { newToken } from '../../nodejs/access/tokens.ts';
import { createAccessStore } from '../state/sqlite/access-store.ts';
import { openDatabase } from '../state/sqlite/database.ts';
import { createAccess, type AccessControl } from './access.ts';

/** Access with a database of its own, a clock that stands still and settings to be changed. */
export interface ScriptedAccess {
  readonly access: AccessControl;
  readonly local: LocalAccess;
  now: number;
  settings: Settings;
  /** `KIND: sentence` */
  readonly notes: string[];
  /** The same database again, as after a restart. */
  restart(): AccessControl;
  /** Ends all that were made and removes the database. */
  close(): void;
}

export function scriptedAccess(): ScriptedAccess {
  const token = newToken('local');
  const directory = mkdtempSync(join(tmpdir(), 'covey-access-'));
  const database = openDatabase(join(directory, 'covey.db'));
  const store = createAccessStore(database);
  const all: AccessControl[] = [];
  const create = (): AccessControl => {
    const access = createAccess({
      store,
      local: scripted.local,
      settings: () => scripted.settings,
      clock: { now: () => scripted.now },
      note: (kind, _level, message) => void scripted.notes.push(`${kind}: ${message}`),
    });
    all.push(access);
    return access;
  };
  const scripted = {
    now: Date.UTC(2026, 10, 30),
    settings: defaultSettings,
    notes: [] as string[],
    local: { token, verify: (candidate: string) => candidate === token, publish: () => Promise.resolve() },
    restart: create,
    close() {
      all.forEach((access) => access.close());
      database.close();
      rmSync(directory, { recursive: true });
    },
  };
  return Object.assign(scripted, { access: create() });
}
