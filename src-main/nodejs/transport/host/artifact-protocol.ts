import type { ArtifactPart } from '#shared/host/transport.ts';
import type { ArtifactId } from '#shared/lib/ids.ts';

/**
 * On an artifact connection, after the preamble, the reader sends one frame for each part and gets an answer before
 * it sends the next: a frame `{"ok":true,"bytes":N}` and N bytes, or `{"ok":false,"error":{...}}`.
 */
export const artifactLimits = {
  requestBytes: 1_024,
  answerBytes: 8 * 1_024,
  /** Of one part. */
  partBytes: 64 * 1024 * 1024,
  /** Silence of the other side after which a connection is given up. */
  silenceMs: 30_000,
} as const;

const id = /^[0-9a-f]{64}$/;

/** A reader's frame, null when it is none. By hand: see preamble.ts. */
export function parsePart(json: string): ArtifactPart | null {
  let value: Record<string, unknown> | null;
  try {
    value = JSON.parse(json) as Record<string, unknown> | null;
  } catch {
    return null;
  }
  if (typeof value !== 'object' || value === null) return null;
  const { what, file, offset, length } = value;
  if (what === 'manifest') return { what };
  if (typeof file !== 'string' || !id.test(file)) return null;
  if (what === 'chunks') return { what, file: file as ArtifactId };
  if (what !== 'bytes') return null;
  if (!isCount(offset, Number.MAX_SAFE_INTEGER) || !isCount(length, artifactLimits.partBytes)) return null;
  return { what, file: file as ArtifactId, offset, length };
}

function isCount(value: unknown, max: number): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0 && (value as number) <= max;
}
