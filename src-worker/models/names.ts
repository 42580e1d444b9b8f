import { CoveyError } from '#shared/errors.ts';
import { err, ok, type Result } from '#shared/lib/result.ts';

export const MAX_NAME_LENGTH = 128;

const allowed = /^[A-Za-z0-9][A-Za-z0-9._-]*$/;
/** Device names of Windows, with or without an extension. */
const reserved = /^(con|prn|aux|nul|com\d|lpt\d)(\.|$)/i;

/**
 * A name someone chose for a model. It becomes the name of a directory, on every system: letters, digits, `.`,
 * `_` and `-`, beginning with a letter or digit, at most 128 characters, no reserved name, no dot at the end.
 */
export function checkModelName(name: string): Result<string, CoveyError> {
  if (name.length <= MAX_NAME_LENGTH && allowed.test(name) && !reserved.test(name) && !name.endsWith('.')) {
    return ok(name);
  }
  return err(
    new CoveyError(
      'invalid_request',
      `"${name.slice(0, MAX_NAME_LENGTH)}" cannot be a model's name: use letters, digits, ".", "_" and "-" ` +
        `(at most ${MAX_NAME_LENGTH}), for example "${sanitiseModelName(name)}"`,
      { field: 'name' },
    ),
  );
}

/** The nearest allowed name to any text: other characters become `-`. Never empty. */
export function sanitiseModelName(text: string): string {
  const clean = text
    .normalize('NFKD')
    .replace(/[\u0300-\u036f]/g, '')
    .replace(/[^A-Za-z0-9._-]+/g, '-')
    .replace(/^[^A-Za-z0-9]+/, '')
    .slice(0, MAX_NAME_LENGTH)
    .replace(/[.-]+$/, '');
  if (clean === '') return 'model';
  return reserved.test(clean) ? `model-${clean}`.slice(0, MAX_NAME_LENGTH) : clean;
}
