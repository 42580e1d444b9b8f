import type { CliIo } from './io.ts';
import { printable, truncate } from './text.ts';

/**
 * Progress on stderr: one line that is rewritten on a terminal, else a new line for every step. What is in it may come
 * from other machines: it is made safe here.
 */
export interface LiveLine {
  /**
   * @param step what is done; elsewhere than on a terminal a line is printed when it changes, and when what it says has
   *   changed after 10 s
   */
  update(step: string, detail: string): void;
  /** A sentence that stays, above the line. */
  note(text: string): void;
  /** Takes the rewritten line away, so that the result starts on a clean one. */
  end(): void;
}

const plainEveryMs = 10_000;

export function createLiveLine(io: CliIo): LiveLine {
  let shown = false;
  let lastText = '';
  let lastStep = '';
  let lastAt = 0;
  const end = (): void => {
    if (shown) io.err('\r\u001b[K');
    shown = false;
  };
  return {
    end,
    note(text) {
      end();
      io.err(`${printable(text)}\n`);
    },
    update(step, detail) {
      const text = printable([step, detail].filter(Boolean).join(' '));
      if (io.errIsTty) {
        io.err(`\r\u001b[K${truncate(text, Math.max(20, io.columns - 1))}`);
        shown = true;
        return;
      }
      if (text === lastText || (step === lastStep && io.now() - lastAt < plainEveryMs)) return;
      lastText = text;
      lastStep = step;
      lastAt = io.now();
      io.err(`${text}\n`);
    },
  };
}
