const cr = 0x0d;
const lf = 0x0a;

/** Where the next byte belongs in the grammar of RFC 9112, 7.1. */
const SIZE_FIRST = 0;
const SIZE = 1;
const EXTENSION = 2;
const SIZE_LF = 3;
const DATA = 4;
const DATA_CR = 5;
const DATA_LF = 6;
const TRAILER_START = 7;
const TRAILER = 8;
const TRAILER_LF = 9;
const LAST_LF = 10;
const DONE = 11;

const maxExtensionBytes = 1_024;
const maxTrailerBytes = 8_192;

/** The peer's bytes are not a chunked body. */
export class FramingError extends Error {}

/**
 * Follows a chunked HTTP body without decoding it. It only counts, so that whole chunks can be passed on as
 * the bytes they came in. Lines must end in CRLF; sizes, extensions and trailers are bounded.
 */
export class ChunkedFraming {
  #state = SIZE_FIRST;
  /** Digits so far, then bytes of the chunk's data that are still to come. */
  #left = 0;
  #digits = 0;
  #extra = 0;
  #last = false;
  #chunks = 0;
  readonly #maxChunkBytes: number;

  constructor(maxChunkBytes: number) {
    this.#maxChunkBytes = maxChunkBytes;
  }

  /** The terminating chunk and its trailers have been seen to their end. */
  get done(): boolean {
    return this.#state === DONE;
  }

  /** Data chunks that were seen to their end. */
  get chunks(): number {
    return this.#chunks;
  }

  /** No byte of a next chunk has been seen. */
  get atBoundary(): boolean {
    return this.#state === SIZE_FIRST;
  }

  /**
   * Follows `bytes[from, to)`.
   * @param onData called with each piece of the chunks' data as a range of `bytes`
   * @returns the index after the last data chunk that is complete (its CRLF included), `from` when there is
   *   none; the terminating chunk never counts, and what follows it is ignored
   * @throws FramingError
   */
  advance(
    bytes: Uint8Array,
    from: number,
    to: number,
    onData?: (start: number, end: number) => void,
  ): number {
    let state = this.#state;
    let boundary = from;
    let at = from;
    while (at < to) {
      if (state === DATA) {
        const end = Math.min(to, at + this.#left);
        onData?.(at, end);
        this.#left -= end - at;
        at = end;
        if (this.#left === 0) state = DATA_CR;
        continue;
      }
      const byte = bytes[at++] as number;
      switch (state) {
        case SIZE_FIRST:
        case SIZE: {
          const digit = hexValue(byte);
          if (digit >= 0) {
            this.#left = this.#left * 16 + digit;
            if (++this.#digits > 16 || this.#left > this.#maxChunkBytes) {
              throw new FramingError(`a chunk is larger than ${this.#maxChunkBytes} bytes`);
            }
            state = SIZE;
          } else if (state === SIZE_FIRST) {
            throw new FramingError('a chunk size is missing');
          } else if (byte === cr) {
            state = SIZE_LF;
          } else if (byte === 0x3b || byte === 0x20 || byte === 0x09) {
            this.#extra = 0;
            state = EXTENSION;
          } else {
            throw new FramingError('a chunk size has a character that is no digit');
          }
          break;
        }
        case EXTENSION:
          if (byte === cr) state = SIZE_LF;
          else if (byte === lf || ++this.#extra > maxExtensionBytes) {
            throw new FramingError('a chunk extension is malformed');
          }
          break;
        case SIZE_LF:
          if (byte !== lf) throw new FramingError('a chunk size does not end in CRLF');
          this.#last = this.#left === 0;
          this.#digits = 0;
          this.#extra = 0;
          state = this.#last ? TRAILER_START : DATA;
          break;
        case DATA_CR:
          if (byte !== cr) throw new FramingError('a chunk does not end in CRLF');
          state = DATA_LF;
          break;
        case DATA_LF:
          if (byte !== lf) throw new FramingError('a chunk does not end in CRLF');
          state = SIZE_FIRST;
          this.#chunks++;
          boundary = at;
          break;
        case TRAILER_START:
          state = byte === cr ? LAST_LF : TRAILER;
          break;
        case TRAILER:
          if (byte === cr) state = TRAILER_LF;
          else if (byte === lf || ++this.#extra > maxTrailerBytes) {
            throw new FramingError('the trailers are malformed or too long');
          }
          break;
        case TRAILER_LF:
          if (byte !== lf) throw new FramingError('a trailer does not end in CRLF');
          state = TRAILER_START;
          break;
        case LAST_LF:
          if (byte !== lf) throw new FramingError('the last chunk does not end in CRLF');
          state = DONE;
          at = to;
          break;
        case DONE:
          at = to;
          break;
      }
    }
    this.#state = state;
    return boundary;
  }
}

function hexValue(byte: number): number {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30;
  if (byte >= 0x61 && byte <= 0x66) return byte - 0x57;
  if (byte >= 0x41 && byte <= 0x46) return byte - 0x37;
  return -1;
}
