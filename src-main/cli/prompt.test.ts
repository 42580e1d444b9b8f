import { PassThrough } from 'node:stream';
import { describe, expect, test } from 'vitest';
import { Exit } from './failure.ts';
import { promptLine } from './prompt.ts';

function terminal() {
  const [input, output] = [new PassThrough(), new PassThrough()];
  return { input, output, terminal: true, shown: () => String(output.read() ?? '') };
}

describe.each([
  ['shown', false],
  ['hidden', true],
])('a line that is %s', (_name, hidden) => {
  test('is what was typed', async () => {
    const streams = terminal();
    const line = promptLine(streams, 'Which? ', { hidden });
    streams.input.write('this\rand more');
    expect(await line).toBe('this');
    const shown = streams.shown();
    expect(shown).toContain('Which? ');
    expect(shown.includes('this')).toBe(!hidden);
  });

  test('Ctrl-C interrupts the command', async () => {
    const line = (async () => {
      const streams = terminal();
      const asked = promptLine(streams, 'Which? ', { hidden });
      streams.input.write('thi\u0003');
      return asked;
    })();
    await expect(line).rejects.toEqual(new Exit(130));
  });

  test('the end of the input is no answer', async () => {
    const streams = terminal();
    const line = promptLine(streams, 'Which? ', { hidden });
    streams.input.end();
    expect(await line).toBeNull();
  });
});

test('nobody types: the first line counts, and nothing is shown', async () => {
  const streams = { ...terminal(), terminal: false };
  const line = promptLine(streams, 'Which? ', { hidden: true });
  streams.input.write('from a pipe\nnext\n');
  expect(await line).toBe('from a pipe');
  expect(streams.shown()).toBe('');
});

test('none comes in time', async () => {
  expect(await promptLine(terminal(), 'Which? ', { hidden: true, timeoutMs: 20 })).toBeNull();
});

test('a question that is taken back is closed', async () => {
  const stop = new AbortController();
  const streams = terminal();
  const line = promptLine(streams, 'Which? ', { hidden: false, signal: stop.signal });
  stop.abort();
  expect(await line).toBeNull();
  expect(streams.shown()).toMatch(/Which\? .*\n$/s);
  expect(await promptLine(streams, 'Which? ', { hidden: false, signal: stop.signal })).toBeNull();
});
