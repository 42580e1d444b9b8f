import { Buffer } from 'node:buffer';
import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { CoveyError } from '#shared/errors.ts';
import { FramingError } from './chunked-framing.ts';
import type { ResponseHead } from './response-head.ts';
import { ResponseReader, type BodyForm, type ResponseSink } from './response-reader.ts';
import type { ConnectionOwner, UpstreamConnection } from './upstream-connection.ts';

/** How far an exchange had come when it failed. */
export type RelayPhase = 'connect' | 'head' | 'body';

export type RelayOutcome =
  | { readonly kind: 'done'; readonly status: number }
  | { readonly kind: 'client_gone' }
  /** `upstream`: it could not be reached or cut the connection; otherwise `abort` was called. */
  | { readonly kind: 'failed'; readonly error: CoveyError; readonly upstream: boolean };

export interface WholeAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

/** What differs between those who relay: names of errors and what the client may see. */
export interface RelayPolicy {
  /** Headers of the upstream's answer that the client gets, in lower case. */
  readonly passHeaders: readonly string[];
  /** What the client gets for a whole answer that is no event stream. */
  rewrite(answer: WholeAnswer): WholeAnswer;
  /** An event stream has brought so many events in all: engines write each as a chunk of its own. */
  onEvents?(count: number): void;
  /** The error for a connection that failed at `phase`; `cause` is what opening it threw, else null. */
  lost(phase: RelayPhase, detail: string, cause: unknown): CoveyError;
  respondError(res: ServerResponse, error: CoveyError): void;
  /** One server-sent event, with its blank line. */
  errorEvent(error: CoveyError): string;
  /** After a loss: how long to wait for `abort`, which knows the reason better. */
  readonly lostGraceMs: number;
}

export interface RelayOptions {
  readonly res: ServerResponse;
  /** Opens the connection; `signal` aborts when it is no longer wanted. */
  open(owner: ConnectionOwner, signal: AbortSignal): UpstreamConnection | Promise<UpstreamConnection>;
  /** The request's bytes, head included. */
  readonly request: readonly Buffer[];
  readonly policy: RelayPolicy;
}

/** Answers that are no event stream are held up to this size, so that a cut can still become a proper error. */
const wholeAnswerBytes = 1024 * 1024;
/** A client that takes no byte for this long is cut off: it would hold a slot of the engine for ever. */
const readerStallMs = 5 * 60_000;
const newline = 0x0a;

/**
 * Sends one request upstream and its answer to `res`.
 *
 * Event streams go through as the chunks they came in, written straight to the client's socket; an incomplete
 * chunk is held back, so that what the client has is always whole events. When the stream is cut it gets an
 * error event and a proper end. Other answers are held until they are whole (up to 1 MiB). Reading pauses while
 * the client does not read; the connection ends at once when the client leaves.
 */
export class Relay implements ResponseSink, ConnectionOwner {
  readonly outcome: Promise<RelayOutcome>;
  readonly #options: RelayOptions;
  readonly #res: ServerResponse;
  readonly #reader = new ResponseReader(this);
  readonly #dialing = new AbortController();
  #settle!: (outcome: RelayOutcome) => void;
  #settled = false;
  #connection: UpstreamConnection | null = null;
  #phase: RelayPhase = 'connect';
  #mode: 'waiting' | 'hold' | 'raw' | 'message' = 'waiting';
  /** The client's socket, in mode `raw`. */
  #socket: Socket | null = null;
  #events = false;
  /** Line feeds at the end of what the client got, up to 2: fewer are within an event. */
  #newlines = 2;
  #held: Buffer[] = [];
  #heldBytes = 0;
  #lossTimer: NodeJS.Timeout | undefined;
  #stallTimer: NodeJS.Timeout | undefined;

  constructor(options: RelayOptions) {
    this.#options = options;
    this.#res = options.res;
    this.outcome = new Promise((resolve) => (this.#settle = resolve));
    options.res.once('close', () => {
      clearTimeout(this.#stallTimer);
      if (!options.res.writableFinished) this.#finish({ kind: 'client_gone' });
    });
    if (options.res.closed || options.res.destroyed) this.#finish({ kind: 'client_gone' });
    else void this.#start();
  }

  /** Ends the exchange with an error of the caller's. */
  abort(error: CoveyError): void {
    this.#fail(error, this.#lossTimer !== undefined);
  }

  async #start(): Promise<void> {
    try {
      const opened = this.#options.open(this, this.#dialing.signal);
      const connection = opened instanceof Promise ? await opened : opened;
      if (this.#settled) {
        connection.destroy();
        return;
      }
      this.#connection = connection;
      connection.send(this.#options.request);
    } catch (error) {
      this.#lose(error instanceof Error ? error.message : String(error), error);
    }
  }

  onOpen(): void {
    this.#phase = 'head';
  }

  onBytes(bytes: Buffer, length: number): boolean {
    if (this.#settled) return false;
    try {
      const kept = this.#reader.push(bytes, 0, length);
      if (this.#events) this.#options.policy.onEvents?.(this.#reader.chunks);
      return kept;
    } catch (error) {
      if (!(error instanceof FramingError)) throw error;
      this.#lose(error.message);
      return true;
    }
  }

  onClose(error: Error | null): void {
    if (this.#settled) return;
    this.#reader.finish();
    this.#lose(error?.message ?? 'the connection was closed');
  }

  onHead(head: ResponseHead): BodyForm {
    const { status } = head;
    this.#phase = 'body';
    if (this.#settled) return 'payload';
    this.#events = status === 200 && /^text\/event-stream\b/i.test(head.headers.get('content-type') ?? '');
    if (!this.#events) {
      this.#mode = 'hold';
      return 'payload';
    }
    const res = this.#res;
    const { socket } = res;
    // Behind another answer of a pipelined connection there is no socket yet; HTTP/1.0 knows no chunks.
    if (head.framing.kind !== 'chunked' || !res.useChunkedEncodingByDefault || !socket) {
      this.#mode = 'message';
      res.writeHead(status, this.#headers(head));
      res.flushHeaders();
      return 'payload';
    }
    this.#mode = 'raw';
    this.#socket = socket;
    res.writeHead(status, { ...this.#headers(head), 'transfer-encoding': 'chunked' });
    // The chunks come framed. Node keeps the connection's books and, at the end, writes the last chunk.
    res.chunkedEncoding = false;
    res.flushHeaders();
    return 'chunks';
  }

  onBody(bytes: Buffer, from: number, to: number): boolean {
    if (this.#settled) return false;
    const socket = this.#socket;
    if (socket) {
      // Before the chunk's own CRLF stands the blank line that ends an event.
      this.#newlines = bytes[to - 3] === newline && bytes[to - 4] === newline ? 2 : 0;
      if (!socket.write(bytes.subarray(from, to))) this.#pause(socket);
      // What the kernel took at once needs the memory no longer.
      return socket.writableLength !== 0;
    }
    if (this.#mode === 'message') {
      this.#countNewlines(bytes, from, to);
      if (!this.#res.write(bytes.subarray(from, to))) this.#pause(this.#res);
      return true;
    }
    this.#held.push(Buffer.from(bytes.subarray(from, to)));
    this.#heldBytes += to - from;
    if (this.#heldBytes > wholeAnswerBytes) this.#startLargeAnswer();
    return false;
  }

  onEnd(): void {
    if (this.#settled) return;
    const head = this.#reader.head as ResponseHead;
    if (this.#mode === 'hold') {
      const body = Buffer.concat(this.#held);
      const answer = this.#options.policy.rewrite({
        status: head.status,
        headers: this.#headers(head),
        body,
      });
      this.#res.writeHead(answer.status, { ...answer.headers, 'content-length': answer.body.length });
      this.#res.end(answer.body);
    } else {
      this.#endStream();
    }
    this.#finish({ kind: 'done', status: head.status });
  }

  #countNewlines(bytes: Buffer, from: number, to: number): void {
    for (let at = Math.max(from, to - 2); at < to; at++) {
      this.#newlines = bytes[at] === newline ? Math.min(2, this.#newlines + 1) : 0;
    }
  }

  #headers(head: ResponseHead): Record<string, string> {
    const headers: Record<string, string> = {};
    for (const name of this.#options.policy.passHeaders) {
      const value = head.headers.get(name);
      if (value !== undefined) headers[name] = value;
    }
    return headers;
  }

  /** Too large to hold: from here on a cut can only be shown by closing early. */
  #startLargeAnswer(): void {
    const head = this.#reader.head as ResponseHead;
    const { framing } = head;
    const length = framing.kind === 'length' ? { 'content-length': framing.bytes } : {};
    this.#mode = 'message';
    this.#res.writeHead(head.status, { ...this.#headers(head), ...length });
    if (!this.#res.write(Buffer.concat(this.#held))) this.#pause(this.#res);
    this.#held = [];
  }

  #pause(target: Socket | ServerResponse): void {
    if (this.#stallTimer !== undefined) return;
    this.#connection?.pause();
    this.#stallTimer = setTimeout(() => this.#res.destroy(), readerStallMs);
    target.once('drain', () => {
      clearTimeout(this.#stallTimer);
      this.#stallTimer = undefined;
      if (!this.#settled) this.#connection?.resume();
    });
  }

  #endStream(): void {
    const res = this.#res;
    if (this.#mode === 'raw') res.chunkedEncoding = true;
    res.end();
    if ((res.socket?.writableLength ?? 0) > 0) {
      this.#stallTimer ??= setTimeout(() => res.destroy(), readerStallMs);
    }
  }

  /** The upstream is gone before its answer was whole. */
  #lose(detail: string, cause: unknown = null): void {
    if (this.#settled || this.#lossTimer !== undefined) return;
    this.#connection?.destroy();
    const { policy } = this.#options;
    const error = policy.lost(this.#phase, detail, cause);
    this.#lossTimer = setTimeout(() => this.#fail(error, true), policy.lostGraceMs);
  }

  #fail(error: CoveyError, upstream: boolean): void {
    if (this.#settled) return;
    const { policy } = this.#options;
    const res = this.#res;
    if (this.#mode === 'waiting' || this.#mode === 'hold') {
      policy.respondError(res, error);
    } else if (this.#events) {
      const event = (this.#newlines < 2 ? '\n\n' : '') + policy.errorEvent(error);
      if (this.#mode === 'raw') res.chunkedEncoding = true;
      res.write(event);
      this.#endStream();
    } else {
      res.destroy();
    }
    this.#finish({ kind: 'failed', error, upstream });
  }

  #finish(outcome: RelayOutcome): void {
    if (this.#settled) return;
    this.#settled = true;
    clearTimeout(this.#lossTimer);
    this.#held = [];
    this.#connection?.destroy();
    this.#dialing.abort();
    this.#settle(outcome);
  }
}

/** Aborts `relay` with the reason of whichever signal is first. @returns lets go of the signals */
export function abortRelayOn(relay: Relay, signals: readonly AbortSignal[]): () => void {
  const onAbort = (event: Event): void => relay.abort(CoveyError.from((event.target as AbortSignal).reason));
  for (const signal of signals) {
    if (signal.aborted) relay.abort(CoveyError.from(signal.reason));
    else signal.addEventListener('abort', onAbort);
  }
  return () => signals.forEach((signal) => signal.removeEventListener('abort', onAbort));
}
