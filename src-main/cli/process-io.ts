import { existsSync, readFileSync } from 'node:fs';
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
      let heardAt = -Infinity;
      // A terminal sends Ctrl-C to everything that runs in it, and bin/covey.mjs passes on what it gets: one press.
      const heard = (): void => {
        const before = heardAt;
        heardAt = performance.now();
        if (heardAt - before > onePressMs) listener();
      };
      for (const signal of signals) process.on(signal, heard);
      return () => {
        for (const signal of signals) process.off(signal, heard);
      };
    },
    async ask(question, signal) {
      if (process.stdin.isTTY !== true || process.stderr.isTTY !== true || inBackground()) return null;
      return promptLine(streams, question, { hidden: false, signal });
    },
    secretLine: (question) => promptLine(streams, question, { hidden: true, timeoutMs: secretLineMs }),
    fileExists: existsSync,
    copyDatabase,
  };
}

const secretLineMs = 60_000;
const onePressMs = 200;

/** Whoever asks at a terminal that belongs to another job of the shell is stopped by it. Known on Linux only. */
function inBackground(): boolean {
  try {
    // pid (name) state ppid pgrp session tty tpgid ...: the name may hold anything.
    const [, , group, , , foreground] = readFileSync('/proc/self/stat', 'latin1')
      .replace(/^.*\) /s, '')
      .split(' ');
    return group !== foreground;
  } catch {
    return false;
  }
}
