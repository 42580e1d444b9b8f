import type { IncomingMessage, ServerResponse } from 'node:http';

/** One request and what a handler may know about it. */
export interface HttpCall {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  readonly params: Readonly<Record<string, string>>;
  readonly query: URLSearchParams;
  /** `member`: another machine of the covey, authenticated by the transport. */
  readonly caller: 'local' | 'member';
  /** Aborts when the server begins to close: streams that have no end of their own end now. */
  readonly stopping: AbortSignal;
  /** Aborts with a CoveyError when running requests are no longer waited for. */
  readonly closing: AbortSignal;
}
