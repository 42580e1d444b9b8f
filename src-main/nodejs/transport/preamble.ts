import { isErrorCode, type ErrorBody } from '#shared/errors.ts';
import type { NodeId } from '#shared/lib/ids.ts';
import type { Preamble, PreambleReply } from '#shared/protocol/join.ts';

const secret = /^[0-9a-f]{64}$/;

/**
 * The preamble of a tunnel or http connection, null when it is none. By hand and not by `preambleSchema`,
 * whose library would add a quarter to the transport process; a test holds the two together.
 */
export function parsePreamble(json: string): Preamble | null {
  const value = parseObject(json);
  if (!value || !Number.isSafeInteger(value['protocol'])) return null;
  const protocol = value['protocol'] as number;
  const { target, grant, token, peer } = value;
  switch (target) {
    case 'gateway':
    case 'probe':
      return { protocol, target };
    case 'engine':
    case 'pulse':
    case 'artifact':
      return isSecret(grant) ? { protocol, target, grant } : null;
    case 'reverse':
      return isSecret(token) ? { protocol, target, token } : null;
    case 'relay':
      return isSecret(token) && isSecret(peer) ? { protocol, target, token, peer: peer as NodeId } : null;
    default:
      return null;
  }
}

/** Node ids have the same form. */
function isSecret(value: unknown): value is string {
  return typeof value === 'string' && secret.test(value);
}

/** The answer to a preamble, null when it is none. Of a refusal only code and sentence are kept. */
export function parsePreambleReply(json: string): PreambleReply | null {
  const value = parseObject(json);
  if (value?.['ok'] === true) return { ok: true };
  if (value?.['ok'] !== false) return null;
  const error = value['error'];
  if (typeof error !== 'object' || error === null) return null;
  const { code, message } = error as Record<string, unknown>;
  if (typeof code !== 'string' || typeof message !== 'string') return null;
  const body: ErrorBody = {
    code: isErrorCode(code) ? code : 'internal_error',
    message: message.slice(0, 4096),
  };
  return { ok: false, error: body };
}

function parseObject(json: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(json);
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : null;
  } catch {
    return null;
  }
}
