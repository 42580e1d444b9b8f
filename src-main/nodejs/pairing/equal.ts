import { Buffer } from 'node:buffer';
import { timingSafeEqual } from 'node:crypto';

/** Whether two secrets are the same, in a time that tells only whether their lengths are. */
export function equalSecrets(a: string, b: string): boolean {
  const left = Buffer.from(a, 'utf8');
  const right = Buffer.from(b, 'utf8');
  return left.length === right.length && timingSafeEqual(left, right);
}
