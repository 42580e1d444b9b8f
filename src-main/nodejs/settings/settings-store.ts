import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { z } from 'zod';
import { CoveyError } from '#shared/errors.ts';
import { wordedIssues } from '#shared/lib/schema-issues.ts';
import { defaultSettings, settingsSchema, type Settings } from '#shared/settings.ts';
import { writePrivateFile } from '../private-file.ts';
import { mergePatch } from './merge.ts';

/** What the owner of this machine has set: `config.json`, which holds only what differs from the defaults. */
export interface SettingsStore {
  readonly current: Settings;
  readonly file: string;
  /**
   * Changes a part, deep (JSON merge patch: null is the default again). All or nothing; one after the other.
   * @param allow may refuse what the settings would become, by throwing
   * @throws CoveyError `setting_unknown`, `invalid_request` naming the field, `disk_full`
   */
  patch(patch: unknown, allow?: (next: Settings) => void): Promise<Settings>;
  /** @returns removes the listener */
  onChange(listener: (now: Settings, before: Settings) => void): () => void;
}

const fileName = 'config.json';
const maxFileBytes = 64 * 1024;

/** @throws CoveyError `config_invalid` naming file and field: a start with other settings than wished is worse */
export async function openSettings(dataDirectory: string): Promise<SettingsStore> {
  const file = join(dataDirectory, fileName);
  let kept = await readConfig(file);
  let current = parseConfig(kept, file);
  const listeners = new Set<(now: Settings, before: Settings) => void>();
  let queue: Promise<unknown> = Promise.resolve();

  const change = async (patch: unknown, allow: (next: Settings) => void): Promise<Settings> => {
    const merged = mergePatch(kept, patch);
    const parsed = settingsSchema.safeParse(merged);
    if (!parsed.success) throw refusal(parsed.error);
    allow(parsed.data);
    const before = current;
    try {
      await writePrivateFile(file, `${JSON.stringify(merged, null, 2)}\n`);
    } catch (error) {
      if (error instanceof CoveyError) throw error;
      const reason = error instanceof Error ? error.message : String(error);
      throw new CoveyError(
        'disk_full',
        `The settings could not be written to ${file}: ${reason}.`,
        {},
        error,
      );
    }
    kept = merged;
    current = parsed.data;
    for (const listener of listeners) listener(current, before);
    return current;
  };

  return {
    get current() {
      return current;
    },
    file,
    patch(patch, allow = () => undefined) {
      const next = queue.then(() => change(patch, allow));
      queue = next.catch(() => undefined);
      return next;
    },
    onChange(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

async function readConfig(file: string): Promise<unknown> {
  try {
    if ((await stat(file)).size > maxFileBytes) throw invalid(file, 'is larger than 64 KiB');
    return JSON.parse(await readFile(file, 'utf8')) as unknown;
  } catch (error) {
    if (error instanceof CoveyError) throw error;
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return {};
    const reason = error instanceof Error ? error.message : String(error);
    throw invalid(
      file,
      error instanceof SyntaxError ? `is not JSON (${reason})` : `cannot be read (${reason})`,
    );
  }
}

function parseConfig(value: unknown, file: string): Settings {
  const parsed = settingsSchema.safeParse(value);
  if (parsed.success) return parsed.data;
  const { field, sentence } = firstIssue(parsed.error);
  throw invalid(file, `is not valid: ${field === '' ? 'it' : field} ${sentence}`, field);
}

function invalid(file: string, what: string, field = ''): CoveyError {
  return new CoveyError(
    'config_invalid',
    `${file} ${what}. Correct it, or delete it to use the defaults.`,
    field === '' ? {} : { field },
  );
}

function refusal(error: z.ZodError): CoveyError {
  const { field, sentence, unknown } = firstIssue(error);
  if (unknown) {
    const known = settingKeys().join(', ');
    return new CoveyError('setting_unknown', `There is no setting ${field}. There are: ${known}.`, { field });
  }
  return new CoveyError(
    'invalid_request',
    // Only some sentences are made to go on after the name.
    `${field === '' ? 'What is set' : field}${/^[a-z]/.test(sentence) ? '' : ':'} ${sentence}.`,
    field === '' ? {} : { field },
  );
}

function firstIssue(error: z.ZodError): { field: string; sentence: string; unknown: boolean } {
  const [first] = wordedIssues(error.issues);
  return {
    field: first?.field ?? '',
    sentence: first?.message ?? 'invalid',
    unknown: first?.issue.code === 'unrecognized_keys',
  };
}

/** `lan.port` and so on: all that can be set. */
export function settingKeys(value: object = defaultSettings, prefix = ''): string[] {
  return Object.entries(value).flatMap(([name, part]) =>
    typeof part === 'object' && part !== null && !Array.isArray(part)
      ? settingKeys(part as object, `${prefix}${name}.`)
      : [prefix + name],
  );
}
