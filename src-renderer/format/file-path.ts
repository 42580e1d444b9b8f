/**
 * Why a path can lead to no file on a machine of that system (`linux`, `darwin`, `win32`; null: not known yet), as a
 * sentence; null: it may. The machine itself looks whether the file is there.
 */
export function pathProblem(typed: string, platform: string | null): string | null {
  const path = typed.trim();
  if (/\p{Cc}/u.test(path)) return 'A path has no control characters.';
  const isWindows = /^([a-z]:[\\/]|\\\\[^\\])/i.test(path);
  const isUnix = path.startsWith('/');
  if (path.startsWith('~')) return 'Write the whole path: the machine does not know whose folder ~ would be.';
  if (platform === 'win32' ? isWindows : platform === null ? isUnix || isWindows : isUnix) return null;
  return platform === 'win32'
    ? 'Write the whole path, with the drive: C:\\models\\model.gguf'
    : 'Write the whole path on that machine, from the first / on.';
}
