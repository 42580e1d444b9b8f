import { StringDecoder } from 'node:string_decoder';

/** What is kept of what a program printed, in UTF-16 units: the contract's `output`. */
export const maxTail = 65_536;

/** The end of what programs print; never longer than `maxTail`. */
export interface OutputTail {
  push(chunk: Uint8Array): void;
  text(): string;
  readonly truncated: boolean;
}

export function createOutputTail(): OutputTail {
  const decoder = new StringDecoder('utf8');
  let pieces: string[] = [];
  let length = 0;
  let truncated = false;
  const compact = (): string => {
    const joined = pieces.join('');
    const kept = joined.length > maxTail ? joined.slice(-maxTail) : joined;
    truncated ||= joined.length > maxTail;
    pieces = [kept];
    ({ length } = kept);
    return kept;
  };
  return {
    push(chunk) {
      const text = decoder.write(Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength));
      pieces.push(text);
      length += text.length;
      // Joined now and then, so that a gigabyte of output costs one pass over it.
      if (length > 4 * maxTail) compact();
    },
    text: compact,
    get truncated() {
      compact();
      return truncated;
    },
  };
}
