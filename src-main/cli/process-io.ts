import { existsSync } from 'node:fs';
import { createInterface } from 'node:readline/promises';
import { Writable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import type { CliIo } from './io.ts';

/** The real world: this process's streams, environment and signals. */
export function processIo(copyDatabase: CliIo['copyDatabase']): CliIo {
  // `covey nodes | head` closes the pipe early: that is no error of ours.
  process.stdout.on('error', (error: NodeJS.ErrnoException) => process.exit(error.code === 'EPIPE' ? 0 : 1));
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
      const line = createInterface({ input: process.stdin, output: process.stderr });
      try {
        return await line.question(question);
      } finally {
        line.close();
      }
    },
    secretLine,
    fileExists: existsSync,
    copyDatabase,
  };
}

const secretLineMs = 60_000;

async function secretLine(question: string): Promise<string | null> {
  const terminal = process.stdin.isTTY === true;
  if (terminal) process.stderr.write(question);
  // A terminal echoes through the interface's output, so this one shows nothing.
  const output = new Writable({ write: (_chunk, _encoding, done) => done() });
  const lines = createInterface({ input: process.stdin, output, terminal });
  const timer = setTimeout(() => lines.close(), secretLineMs);
  try {
    for await (const line of lines) return line;
    return null;
  } finally {
    clearTimeout(timer);
    lines.close();
    if (terminal) process.stderr.write('\n');
  }
}
