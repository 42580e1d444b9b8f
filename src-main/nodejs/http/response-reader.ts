import { Buffer } from 'node:buffer';
import { ChunkedFraming, FramingError } from './chunked-framing.ts';
import { maxHeadBytes, parseResponseHead, type ResponseHead } from './response-head.ts';

/**
 * How the reader hands out the body. `payload`: its bytes, as they come. `chunks`: for a chunked body, ranges
 * of whole chunks with their framing, ready to be written to another chunked body.
 */
export type BodyForm = 'payload' | 'chunks';

export interface ResponseSink {
  /** Once, before any body. */
  onHead(head: ResponseHead): BodyForm;
  /**
   * A range of the body. The bytes are the sink's only during the call.
   * @returns true when the sink keeps them; their memory must then not be used again
   */
  onBody(bytes: Buffer, from: number, to: number): boolean;
  /** The response is complete. */
  onEnd(): void;
}

/** An event is one chunk, and the largest (log probabilities of a whole vocabulary) take a few MiB. */
const maxChunkBytes = 16 * 1024 * 1024;
const empty = Buffer.alloc(0);

/** Reads one HTTP/1.1 response. It does no I/O: bytes go in, calls to the sink come out. */
export class ResponseReader {
  readonly #sink: ResponseSink;
  #head: ResponseHead | null = null;
  #form: BodyForm = 'payload';
  #chunked: ChunkedFraming | null = null;
  /** Bytes of the body still to come, for a body with a length. */
  #left = Infinity;
  #done = false;
  /** Head bytes, or a chunk that is not complete: what waits for more. */
  #held: Buffer[] = [];
  #heldBytes = 0;

  constructor(sink: ResponseSink) {
    this.#sink = sink;
  }

  get done(): boolean {
    return this.#done;
  }

  get head(): ResponseHead | null {
    return this.#head;
  }

  /** Complete chunks of the body so far; 0 for a body that is not chunked. */
  get chunks(): number {
    return this.#chunked?.chunks ?? 0;
  }

  /**
   * @returns true when the sink keeps the memory of `bytes`
   * @throws FramingError when the peer does not speak HTTP/1.1
   */
  push(bytes: Buffer, from: number, to: number): boolean {
    if (this.#done) return false;
    if (this.#head === null) return this.#pushHead(bytes, from, to);
    return this.#pushBody(bytes, from, to);
  }

  /** The peer has closed. Afterwards `done` says whether the response is whole. */
  finish(): void {
    if (!this.#done && this.#head?.framing.kind === 'close') this.#end();
  }

  #pushHead(bytes: Buffer, from: number, to: number): boolean {
    const scanFrom = Math.max(0, this.#heldBytes - 3);
    const all = this.#takeHeld(bytes, from, to);
    const end = all.indexOf('\r\n\r\n', scanFrom, 'latin1');
    if (end > maxHeadBytes || (end < 0 && all.length > maxHeadBytes)) {
      throw new FramingError(`the head of the answer is larger than ${maxHeadBytes} bytes`);
    }
    if (end < 0) {
      this.#hold(all, 0, all.length);
      return false;
    }
    const head = parseResponseHead(all.toString('latin1', 0, end));
    const rest = end + 4;
    // Interim answers (100 Continue) come before the one that counts.
    if (head.status < 200) return this.#pushHead(all, rest, all.length);
    this.#head = head;
    if (head.framing.kind === 'chunked') this.#chunked = new ChunkedFraming(maxChunkBytes);
    else if (head.framing.kind === 'length') this.#left = head.framing.bytes;
    this.#form = this.#sink.onHead(head);
    if (this.#left === 0) this.#end();
    // `all` is a copy of its own, so what the sink keeps of it is not the caller's memory.
    else if (rest < all.length) this.#pushBody(all, rest, all.length);
    return false;
  }

  #pushBody(bytes: Buffer, from: number, to: number): boolean {
    if (this.#chunked === null) {
      const end = Math.min(to, from + this.#left);
      this.#left -= end - from;
      const kept = this.#sink.onBody(bytes, from, end);
      if (this.#left === 0) this.#end();
      return kept;
    }
    if (this.#form === 'payload') return this.#pushPayload(this.#chunked, bytes, from, to);
    const boundary = this.#chunked.advance(bytes, from, to);
    let kept = false;
    if (boundary > from) {
      if (this.#heldBytes === 0) {
        kept = this.#sink.onBody(bytes, from, boundary);
      } else {
        const all = this.#takeHeld(bytes, from, boundary);
        this.#sink.onBody(all, 0, all.length);
      }
    }
    if (this.#chunked.done) this.#end();
    else if (boundary < to) this.#hold(bytes, boundary, to);
    return kept;
  }

  #pushPayload(chunked: ChunkedFraming, bytes: Buffer, from: number, to: number): boolean {
    let kept = false;
    chunked.advance(bytes, from, to, (start, end) => {
      if (this.#sink.onBody(bytes, start, end)) kept = true;
    });
    if (chunked.done) this.#end();
    return kept;
  }

  #end(): void {
    this.#done = true;
    this.#held = [];
    this.#sink.onEnd();
  }

  #hold(bytes: Buffer, from: number, to: number): void {
    this.#held.push(Buffer.from(bytes.subarray(from, to)));
    this.#heldBytes += to - from;
  }

  /** What was held and the given range, joined in memory of its own. */
  #takeHeld(bytes: Buffer, from: number, to: number): Buffer {
    const held = this.#held;
    held.push(bytes.subarray(from, to));
    const all = held.length === 1 ? Buffer.from(held[0] ?? empty) : Buffer.concat(held);
    this.#held = [];
    this.#heldBytes = 0;
    return all;
  }
}
