import { describe, expect, it } from 'vitest';
import { engineEnvironment } from './environment.ts';
import { createLineSplitter } from './line-splitter.ts';
import { limitLog } from './log-limit.ts';
import { parsePs, processUsage } from './process-usage.ts';

describe('line splitter', () => {
  it('joins chunks, splits characters of several bytes, and drops line ends of both kinds', () => {
    const lines: string[] = [];
    const splitter = createLineSplitter((line) => lines.push(line));
    const bytes = Buffer.from('one\r\ntwo ü\n\nthree');
    for (const byte of bytes) splitter.push(Buffer.from([byte]));
    splitter.end();
    expect(lines).toEqual(['one', 'two ü', 'three']);
  });

  it('passes on a line without an end in bounded pieces', () => {
    const lines: string[] = [];
    const splitter = createLineSplitter((line) => lines.push(line));
    for (let chunk = 0; chunk < 40; chunk += 1) splitter.push(Buffer.alloc(8_192, 97));
    expect(lines.length).toBeGreaterThan(3);
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThan(100_000);
  });
});

it('the environment of an engine holds nothing of ours but what it needs', () => {
  process.env['LLAMA_ARG_CTX_SIZE'] = '7';
  try {
    const environment = engineEnvironment({ LLAMA_API_KEY: 'k' });
    expect(environment).toMatchObject({ GGML_NO_BACKTRACE: '1', LLAMA_API_KEY: 'k' });
    expect(environment).not.toHaveProperty('LLAMA_ARG_CTX_SIZE');
  } finally {
    delete process.env['LLAMA_ARG_CTX_SIZE'];
  }
});

describe('process usage', () => {
  it('of ourselves is known on Linux, of nobody unknown', async () => {
    const own = await processUsage(process.pid);
    if (process.platform === 'linux') {
      expect(own.rssBytes).toBeGreaterThan(10_000_000);
      expect(own.cpuMs).toBeGreaterThan(0);
    }
    expect(own.suspended).toBe(false);
    expect(await processUsage(2 ** 22 + 1)).toEqual({ rssBytes: null, cpuMs: null, suspended: false });
  });

  it('is read from ps', () => {
    expect(parsePs(' 12345   1:02.50 S+\n')).toEqual({
      rssBytes: 12_345 * 1024,
      cpuMs: 62_500,
      suspended: false,
    });
    expect(parsePs('1 10:00:01 T')).toEqual({ rssBytes: 1024, cpuMs: 36_001_000, suspended: true });
    expect(parsePs('')).toEqual({ rssBytes: null, cpuMs: null, suspended: false });
  });
});

it('a log in a loop is cut to a hundred lines a second, and the rest counted', () => {
  let now = 0;
  const passed: string[] = [];
  const log = limitLog(
    (_level, message) => passed.push(message),
    () => now,
  );
  for (let line = 0; line < 150; line += 1) log('warn', `line ${line}`);
  expect(passed).toHaveLength(100);
  now = 1_000;
  log('info', 'calm again');
  expect(passed.slice(100)).toEqual(["50 lines of the engine's log were left out", 'calm again']);
});
