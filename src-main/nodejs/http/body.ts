import { Buffer } from 'node:buffer';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { z } from 'zod';
import { CoveyError, type ErrorReason } from '#shared/errors.ts';
import { wordedIssues } from '#shared/lib/schema-issues.ts';
import { expectsContinue } from './respond.ts';

/** Bytes of request bodies that a server holds at one time, over all requests. */
export class BodyBudget {
  #freeBytes: number;

  constructor(totalBytes: number) {
    this.#freeBytes = totalBytes;
  }

  take(bytes: number): boolean {
    if (bytes > this.#freeBytes) return false;
    this.#freeBytes -= bytes;
    return true;
  }

  give(bytes: number): void {
    this.#freeBytes += bytes;
  }
}

export interface BodyOptions {
  readonly limitBytes: number;
  /** Taken from as bytes arrive; the caller gives back what a resolved body holds, a failed one gives it back itself. */
  readonly budget?: BodyBudget;
  /** Sees each piece as it arrives; what it throws ends the reading. */
  readonly onPiece?: (piece: Buffer) => void;
}

/**
 * Reads a request's body. Its deadline is the server's `requestTimeout`.
 * @throws CoveyError `body_too_large`, before a byte is read where the length is announced; `too_many_requests`;
 *   `cancelled` when the client leaves
 */
export function readBody(req: IncomingMessage, res: ServerResponse, options: BodyOptions): Promise<Buffer[]> {
  const { limitBytes, budget, onPiece } = options;
  return new Promise((resolve, reject) => {
    const pieces: Buffer[] = [];
    let bytes = 0;
    const stop = (): void => {
      req.off('data', onData);
      req.off('end', onEnd);
      req.off('close', onClose);
    };
    const fail = (error: unknown): void => {
      stop();
      budget?.give(bytes);
      reject(error instanceof Error ? error : CoveyError.from(error));
    };
    const onData = (piece: Buffer): void => {
      if (bytes + piece.length > limitBytes) return fail(tooLarge(limitBytes));
      if (budget && !budget.take(piece.length)) return fail(tooMuchAtOnce());
      bytes += piece.length;
      pieces.push(piece);
      try {
        onPiece?.(piece);
      } catch (error) {
        fail(error);
      }
    };
    const onEnd = (): void => {
      stop();
      resolve(pieces);
    };
    const onClose = (): void => fail(new CoveyError('cancelled', 'The client closed the connection.'));

    if (Number(req.headers['content-length'] ?? 0) > limitBytes) return reject(tooLarge(limitBytes));
    if (expectsContinue(req)) res.writeContinue();
    req.on('data', onData);
    req.on('end', onEnd);
    req.on('close', onClose);
  });
}

/**
 * Reads a JSON body and checks it. An absent body counts as `{}`.
 * @param budget taken from while its bytes are held
 * @throws CoveyError as `readBody`; `invalid_json`; `invalid_request` naming the field
 */
export async function readJson<T>(
  req: IncomingMessage,
  res: ServerResponse,
  limitBytes: number,
  schema: z.ZodType<T>,
  budget?: BodyBudget,
): Promise<T> {
  const bytes = Buffer.concat(await readBody(req, res, { limitBytes, ...(budget ? { budget } : {}) }));
  const text = bytes.toString('utf8');
  budget?.give(bytes.length);
  let value: unknown;
  try {
    value = text === '' ? {} : JSON.parse(text);
  } catch (error) {
    throw new CoveyError(
      'invalid_json',
      `The body is not JSON: ${error instanceof Error ? error.message : 'malformed'}.`,
    );
  }
  return check(schema, value, 'The body');
}

/** @throws CoveyError `invalid_request` that names the first field at fault and carries all of them as reasons */
export function check<T>(schema: z.ZodType<T>, value: unknown, what: string): T {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const issues = wordedIssues(parsed.error.issues).slice(0, 16);
  const reasons: ErrorReason[] = issues.map(({ issue: { code }, field, message }) => ({
    ...{ code, message },
    ...(field === '' ? {} : { field }),
  }));
  const first = reasons[0];
  const field = first?.field;
  const sentence = field === undefined ? `${what}: ${first?.message}` : `${field}: ${first?.message}`;
  throw new CoveyError('invalid_request', sentence, field === undefined ? { reasons } : { field, reasons });
}

function tooLarge(limitBytes: number): CoveyError {
  const limit =
    limitBytes >= 1024 * 1024 ? `${Math.round(limitBytes / 1024 / 1024)} MiB` : `${limitBytes} bytes`;
  return new CoveyError('body_too_large', `The body of this request may have at most ${limit}.`);
}

function tooMuchAtOnce(): CoveyError {
  return new CoveyError('too_many_requests', 'Too many large requests are being received at once.');
}
