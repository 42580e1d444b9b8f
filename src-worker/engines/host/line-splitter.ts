import { StringDecoder } from 'node:string_decoder';

/** Longer lines are passed on in pieces: a program that never ends its line must not fill our memory. */
const maxLineLength = 64 * 1024;

/** Turns chunks of a program's output into lines without their ends. */
export function createLineSplitter(onLine: (line: string) => void): {
  push(chunk: Uint8Array): void;
  /** Passes on what stands without a line end. */
  end(): void;
} {
  const decoder = new StringDecoder('utf8');
  let rest = '';
  const emit = (line: string): void => {
    const text = line.endsWith('\r') ? line.slice(0, -1) : line;
    if (text !== '') onLine(text);
  };
  return {
    push(chunk) {
      const lines = (
        rest + decoder.write(Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength))
      ).split('\n');
      rest = lines.pop() ?? '';
      lines.forEach(emit);
      if (rest.length > maxLineLength) {
        emit(rest);
        rest = '';
      }
    },
    end() {
      emit(rest + decoder.end());
      rest = '';
    },
  };
}
