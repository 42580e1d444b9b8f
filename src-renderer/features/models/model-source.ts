import { parseHubSource } from '#shared/domain/hub-source.ts';

/** What was typed or pasted as a model of the hub, as `hf:owner/repo[/file.gguf]`; addresses of its pages too. */
export function hubSource(typed: string): string {
  const text = typed.trim();
  if (text.startsWith('hf:')) return text;
  const path = text.replace(/^https:\/\/(www\.)?huggingface\.co\//i, '').replace(/[?#].*$/, '');
  return `hf:${path.replace(/^([^/]+\/[^/]+)\/(?:blob|resolve|tree)\/[^/]+(?=\/|$)/, '$1').replace(/\/$/, '')}`;
}

/** Why it can never be downloaded, as a sentence; null: it may exist. */
export function sourceProblem(typed: string): string | null {
  if (/^[a-z][a-z0-9+.-]*:\/\//i.test(hubSource(typed).slice(3))) {
    return 'Only models of the hub are downloaded. Fetch a file from elsewhere yourself, then import it.';
  }
  const parsed = parseHubSource(hubSource(typed));
  return parsed.ok ? null : `${parsed.error.message}.`;
}

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
