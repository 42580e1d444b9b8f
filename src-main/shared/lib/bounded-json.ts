/**
 * Whether a value is JSON and nests at most so deep: what walks it by recursion then always returns. `[[1]]` is two
 * levels deep. Does not itself recurse deeper than that.
 */
export function isBoundedJson(value: unknown, levels: number): boolean {
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return true;
  if (typeof value === 'number') return Number.isFinite(value);
  if (typeof value !== 'object' || levels <= 0) return false;
  if (Array.isArray(value)) return value.every((part) => isBoundedJson(part, levels - 1));
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) return false;
  return Object.values(value).every((part) => isBoundedJson(part, levels - 1));
}
