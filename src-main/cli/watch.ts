import type { Command } from 'commander';
import type { CommandContext } from './context.ts';
import { CoveyError } from '#shared/errors.ts';
import { describeError } from './failure.ts';

const everyMs = 2_000;
/** Moves to the top left and clears what is below; the text that scrolled away stays. */
const clearScreen = '\u001b[H\u001b[2J';

type Action = (context: CommandContext) => Promise<void>;

export interface WatchFlags {
  readonly watch: boolean;
}

export function watchOption(command: Command): Command {
  return command.option('--watch', 'show it again every 2 s, until Ctrl-C', false);
}

/**
 * Runs what shows something, once or again and again until Ctrl-C. On a terminal the screen is drawn anew, elsewhere
 * (and with `--json`) it is printed when it has changed. A controller that is away for a moment is waited for, once
 * it has answered.
 */
export function watching({ watch }: WatchFlags, show: Action): Action {
  if (!watch) return show;
  return async (context) => {
    const { io } = context;
    const redraws = io.outIsTty && !context.json;
    const stop = new AbortController();
    const removeListener = io.onInterrupt(() => stop.abort());
    let last: string | null = null;
    try {
      while (!stop.signal.aborted) {
        const text = await capture(context, show, last !== null);
        if (stop.signal.aborted) break;
        if (text !== last) io.out(redraws ? `${clearScreen}${text}` : text);
        last = text;
        await io.sleep(everyMs, stop.signal);
      }
    } finally {
      removeListener();
    }
  };
}

async function capture(context: CommandContext, show: Action, answered: boolean): Promise<string> {
  const parts: string[] = [];
  try {
    await show({ ...context, io: { ...context.io, out: (text) => void parts.push(text) } });
  } catch (error) {
    if (!answered || !(error instanceof CoveyError) || !error.retryable) throw error;
    return context.json ? `${JSON.stringify({ error: error.toBody() })}\n` : describeError(error.toBody());
  }
  return parts.join('');
}
