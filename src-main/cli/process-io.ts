import { existsSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import type { CliIo } from './io.ts';
import { promptLine, type PromptStreams } from './prompt.ts';

/** The real world: this process's streams, environment and signals. */
export function processIo(copyDatabase: CliIo['copyDatabase']): CliIo {
  // `covey nodes | head` closes the pipe early: that is no error of ours.
  process.stdout.on('error', (error: NodeJS.ErrnoException) => process.exit(error.code === 'EPIPE' ? 0 : 1));
  // Whoever does not read what is said beside the results gets the results nevertheless.
  process.stderr.on('error', () => undefined);
  const streams: PromptStreams = {
    input: process.stdin,
    output: process.stderr,
    terminal: process.stdin.isTTY === true,
  };
  return {
    out: (text) => void process.stdout.write(text),
    err: (text) => void process.stderr.write(text),
    outIsTty: process.stdout.isTTY === true,
    errIsTty: process.stderr.isTTY === true,
    columns: (process.stdout.isTTY ? process.stdout.columns : process.stderr.columns) || 80,
    env: process.env,
    workingDirectory: process.cwd(),
    now: Date.now,
    sleep: (ms, signal) => delay(ms, undefined, { signal }).catch(() => undefined),
    onInterrupt(listener) {
      const signals = ['SIGINT', 'SIGTERM'] as const;
      for (const signal of signals) process.on(signal, listener);
      return () => {
        for (const signal of signals) process.off(signal, listener);
      };
    },
    async ask(question) {
      if (process.stdin.isTTY !== true || process.stderr.isTTY !== true) return null;
      return promptLine(streams, question, { hidden: false });
    },
    secretLine: (question) => promptLine(streams, question, { hidden: true, timeoutMs: secretLineMs }),
    fileExists: existsSync,
    copyDatabase,
  };
}

const secretLineMs = 60_000;
