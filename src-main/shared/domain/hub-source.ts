import { CoveyError } from '../errors.ts';
import { err, ok, type Result } from '../lib/result.ts';

/** `hf:owner/repo` or `hf:owner/repo/path/to/file.gguf`. */
export interface HubSource {
  readonly repository: string;
  /** null: the best file of the repository. */
  readonly file: string | null;
}

/** A name of the hub: letters, digits, `_`, and single `.` or `-` between them. */
const namePattern = /^(?=.{1,96}$)[A-Za-z0-9_]+(?:[.-]+[A-Za-z0-9_]+)*$/;
const filePattern = /^[^\\\u0000-\u001f]{1,512}$/;

/** Reads where a model of the hub is; a refusal (`invalid_request`, field `source`) quotes 200 characters at most. */
export function parseHubSource(source: string): Result<HubSource, CoveyError> {
  const refuse = (why: string): Result<never, CoveyError> =>
    err(
      new CoveyError(
        'invalid_request',
        `"${source.slice(0, 200)}" ${why}; write hf:owner/repo/file.gguf or hf:owner/repo`,
        {
          field: 'source',
        },
      ),
    );
  if (!source.startsWith('hf:')) return refuse('is no hub source');
  const [owner = '', name = '', ...path] = source.slice(3).split('/');
  if (!namePattern.test(owner) || !namePattern.test(name)) return refuse('names no repository');
  if (path.length === 0) return ok({ repository: `${owner}/${name}`, file: null });
  const file = path.join('/');
  if (!filePattern.test(file) || path.some((part) => part === '' || part === '.' || part === '..')) {
    return refuse('names no file');
  }
  if (!/\.gguf$/i.test(file)) return refuse('names a file that is not a .gguf');
  return ok({ repository: `${owner}/${name}`, file });
}
