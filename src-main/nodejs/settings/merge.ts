/**
 * A JSON merge patch (RFC 7396): objects are merged, null takes a member away, anything else replaces. What is
 * left of an object without members is nothing.
 */
export function mergePatch(target: unknown, patch: unknown): unknown {
  if (!isRecord(patch)) return patch;
  const members = new Map(Object.entries(isRecord(target) ? target : {}));
  for (const [name, value] of Object.entries(patch)) {
    const merged = value === null ? undefined : mergePatch(members.get(name), value);
    if (merged === undefined || isEmpty(merged)) members.delete(name);
    else members.set(name, merged);
  }
  // Defines each member anew: a member called "__proto__" is one like any other.
  return Object.fromEntries(members);
}

export interface Change {
  /** `lan.port` */
  readonly key: string;
  readonly before: unknown;
  readonly after: unknown;
}

/** What differs between two values of the same shape, leaf by leaf. */
export function differences(before: unknown, after: unknown, path: readonly string[] = []): Change[] {
  if (isRecord(before) && isRecord(after)) {
    const names = new Set([...Object.keys(before), ...Object.keys(after)]);
    return [...names].flatMap((name) => differences(before[name], after[name], [...path, name]));
  }
  if (JSON.stringify(before) === JSON.stringify(after)) return [];
  return [{ key: path.join('.'), before, after }];
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function isEmpty(value: unknown): boolean {
  return isRecord(value) && Object.keys(value).length === 0;
}
