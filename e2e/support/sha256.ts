import { createHash } from 'node:crypto';

/** The id of a file with this content. */
export function sha256Of(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
