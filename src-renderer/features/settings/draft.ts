import { settingsSchema, type Settings } from '#shared/settings.ts';

/** What was typed and is not saved yet, by path. */
export type Drafts = Readonly<Record<string, unknown>>;

export function valueAt(settings: object, path: string): unknown {
  return path.split('.').reduce<unknown>((part, name) => (isRecord(part) ? part[name] : undefined), settings);
}

/** The settings as they would be. */
export function withDrafts(settings: Settings, drafts: Drafts): unknown {
  return Object.entries(drafts).reduce<unknown>(
    (whole, [path, value]) => placed(whole, path.split('.'), value),
    settings,
  );
}

function placed(whole: unknown, path: readonly string[], value: unknown): unknown {
  const [name, ...rest] = path;
  if (name === undefined) return value;
  const record = isRecord(whole) ? whole : {};
  return { ...record, [name]: placed(record[name], rest, value) };
}

/** Drafts that differ from what is saved. */
export function changedPaths(settings: Settings, drafts: Drafts): readonly string[] {
  return Object.keys(drafts).filter(
    (path) => JSON.stringify(drafts[path]) !== JSON.stringify(valueAt(settings, path)),
  );
}

/**
 * A JSON merge patch that makes `before` into `after`: a member that is gone, or nothing now, is null, which is
 * the default again.
 */
export function patchBetween(before: unknown, after: unknown): Record<string, unknown> {
  const patch: Record<string, unknown> = {};
  const [old, now] = [isRecord(before) ? before : {}, isRecord(after) ? after : {}];
  for (const name of new Set([...Object.keys(old), ...Object.keys(now)])) {
    const [was, is] = [old[name], now[name]];
    if (JSON.stringify(was) === JSON.stringify(is)) continue;
    patch[name] = isRecord(was) && isRecord(is) ? patchBetween(was, is) : (is ?? null);
  }
  return patch;
}

/** What is wrong, by the path of the field: the first for each, in words. Paths that nobody typed are left out. */
export function problemsOf(
  settings: Settings,
  drafts: Drafts,
  format: (path: string, value: number) => string = (_path, value) => String(value),
): Readonly<Record<string, string>> {
  const parsed = settingsSchema.safeParse(withDrafts(settings, drafts));
  if (parsed.success) return {};
  const problems: Record<string, string> = {};
  for (const issue of parsed.error.issues) {
    const at = issue.path.join('.');
    // The entry of a list or a record belongs to the field that has the whole.
    const path = Object.keys(drafts).find((draft) => at === draft || at.startsWith(`${draft}.`)) ?? at;
    if (problems[path] !== undefined) continue;
    const isNumber = (issue.code === 'too_small' || issue.code === 'too_big') && 'origin' in issue;
    const ofNumber = isNumber && (issue.origin === 'number' || issue.origin === 'int');
    const entry = at === path ? '' : entryOf(withDrafts(settings, drafts), at);
    if (ofNumber && issue.code === 'too_small')
      problems[path] = `At least ${format(path, Number(issue.minimum))}.`;
    else if (ofNumber && issue.code === 'too_big')
      problems[path] = `At most ${format(path, Number(issue.maximum))}.`;
    else if (issue.code === 'invalid_type')
      problems[path] = issue.expected === 'int' ? 'A whole number.' : 'Digits only, such as 16 or 1.5.';
    else problems[path] = `${entry}${issue.message.charAt(0).toUpperCase()}${issue.message.slice(1)}.`;
  }
  return problems;
}

/** `"Bad Host": ` for an entry that is text. */
function entryOf(whole: unknown, path: string): string {
  const value = path
    .split('.')
    .reduce<unknown>((part, name) => (part as Record<string, unknown> | undefined)?.[name], whole);
  return typeof value === 'string' ? `"${value.slice(0, 40)}": ` : '';
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
