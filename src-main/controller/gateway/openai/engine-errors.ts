import { Buffer } from 'node:buffer';
import { CoveyError, openAiError } from '#shared/errors.ts';
import { errorHeaders } from '../../../nodejs/http/respond.ts';
import type { WholeAnswer } from '../../../nodejs/http/relay.ts';

/** llama-server's `error.type` -> OpenAI's `type` and `code`, where the two differ. */
const engineTypes: Readonly<Record<string, { readonly type: string; readonly code: string }>> = {
  exceed_context_size_error: { type: 'invalid_request_error', code: 'context_length_exceeded' },
  not_supported_error: { type: 'invalid_request_error', code: 'not_supported' },
  not_found_error: { type: 'not_found_error', code: 'not_found' },
};

/**
 * What the client gets for a whole answer of the engine. Success passes unchanged. llama-server's errors have a
 * number as `code` and no `param`; OpenAI's clients expect a string and null. What only concerns us and the
 * engine (its key, its loading) becomes an error of ours.
 */
export function rewriteEngineAnswer(answer: WholeAnswer): WholeAnswer {
  if (answer.status < 400) return answer;
  if (answer.status === 401 || answer.status === 403) {
    return ourError(new CoveyError('engine_unreachable', 'The engine refused the controller.'));
  }
  const error = engineError(answer.body);
  if (answer.status === 503 || error?.['type'] === 'unavailable_error') {
    const detail = typeof error?.['message'] === 'string' ? error['message'] : 'it is busy';
    return ourError(
      new CoveyError('not_ready', `The engine cannot answer now: ${detail}.`, { retryAfterS: 2 }),
    );
  }
  const given = typeof error?.['type'] === 'string' ? error['type'] : '';
  const named = engineTypes[given];
  const fallback = answer.status < 500 ? 'invalid_request_error' : 'server_error';
  const body = {
    error: {
      ...error,
      message: typeof error?.['message'] === 'string' ? error['message'] : engineSaid(answer),
      type: named?.type ?? (given || fallback),
      param: typeof error?.['param'] === 'string' ? error['param'] : null,
      code: named?.code ?? (typeof error?.['code'] === 'string' ? error['code'] : given || fallback),
    },
  };
  return json(answer.status, body, {});
}

function engineError(body: Buffer): Record<string, unknown> | null {
  try {
    const value = JSON.parse(body.toString('utf8')) as unknown;
    const error = isRecord(value) ? value['error'] : null;
    if (isRecord(error)) return error;
    return typeof error === 'string' ? { message: error } : null;
  } catch {
    return null;
  }
}

function engineSaid(answer: WholeAnswer): string {
  const text = answer.body.toString('utf8').trim();
  return text === '' ? `The engine answered with status ${answer.status}.` : text.slice(0, 500);
}

function ourError(error: CoveyError): WholeAnswer {
  return json(error.status, openAiError(error), errorHeaders(error));
}

function json(status: number, body: object, headers: Readonly<Record<string, string>>): WholeAnswer {
  return {
    status,
    headers: { 'content-type': 'application/json; charset=utf-8', ...headers },
    body: Buffer.from(JSON.stringify(body)),
  };
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
