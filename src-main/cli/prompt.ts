import { createInterface } from 'node:readline';
import { Writable, type Readable } from 'node:stream';
import { Exit, exitCodes } from './failure.ts';

export interface PromptStreams {
  readonly input: Readable;
  /** Where the question goes. */
  readonly output: Writable;
  /** Whether a person types; else the first line counts, whoever sent it. */
  readonly terminal: boolean;
}

/**
 * One line, without its end. null: the input ended, none came in time, or the signal aborted.
 * @param hidden what is typed does not appear
 * @throws Exit as interrupted, at Ctrl-C
 */
export async function promptLine(
  { input, output, terminal }: PromptStreams,
  question: string,
  {
    hidden,
    timeoutMs,
    signal,
  }: { readonly hidden: boolean; readonly timeoutMs?: number; readonly signal?: AbortSignal | undefined },
): Promise<string | null> {
  if (signal?.aborted) return null;
  const lines = createInterface({ input, output: hidden ? silent() : output, terminal });
  const close = (): void => lines.close();
  signal?.addEventListener('abort', close);
  try {
    return await new Promise<string | null>((resolve, reject) => {
      const timer = timeoutMs === undefined ? null : setTimeout(() => lines.close(), timeoutMs);
      let answered = false;
      lines.once('line', (line) => {
        answered = true;
        resolve(line);
      });
      lines.once('SIGINT', () => {
        reject(new Exit(exitCodes.interrupted));
      });
      lines.once('close', () => {
        if (timer) clearTimeout(timer);
        if (!answered && !hidden) output.write('\n');
        resolve(null);
      });
      if (!hidden) {
        lines.setPrompt(question);
        lines.prompt();
      } else if (terminal) output.write(question);
    });
  } finally {
    signal?.removeEventListener('abort', close);
    lines.close();
    if (hidden && terminal) output.write('\n');
  }
}

/** A terminal echoes through the interface's output, so this one shows nothing. */
function silent(): Writable {
  return new Writable({ write: (_chunk, _encoding, done) => done() });
}
