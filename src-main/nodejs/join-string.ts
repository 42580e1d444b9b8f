import { CoveyError } from '#shared/errors.ts';
import { err, ok, type Result } from '#shared/lib/result.ts';
import { joinStringSchema, type JoinStringContent } from '#shared/protocol/join.ts';

const prefix = 'covey1.';
const maxLength = 4096;

/** `covey1.` and the content as base64url JSON: one word, safe to paste into a shell. */
export function encodeJoinString(content: JoinStringContent): string {
  return prefix + Buffer.from(JSON.stringify(content), 'utf8').toString('base64url');
}

/** Reads a join string as a person pasted it: white space around it is not part of it. */
export function decodeJoinString(text: string): Result<JoinStringContent, CoveyError> {
  const refuse = (why: string) =>
    err(
      new CoveyError(
        'join_string_invalid',
        `The join string ${why}. Copy the whole line that "covey invite" printed.`,
        {
          field: 'joinString',
        },
      ),
    );
  const word = text.trim();
  if (!word.startsWith(prefix)) return refuse(`does not begin with "${prefix}"`);
  if (word.length > maxLength) return refuse(`is longer than ${maxLength} characters`);
  let value: unknown;
  try {
    value = JSON.parse(Buffer.from(word.slice(prefix.length), 'base64url').toString('utf8'));
  } catch {
    return refuse('is damaged');
  }
  const parsed = joinStringSchema.safeParse(value);
  return parsed.success ? ok(parsed.data) : refuse('lacks something that it must carry');
}
