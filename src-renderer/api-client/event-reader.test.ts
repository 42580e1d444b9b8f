import { expect, it } from 'vitest';
import { readEvents } from './event-reader.ts';

const event = (message: string): string =>
  `id: 1\ndata: ${JSON.stringify({ id: 1, at: 5, kind: 'noted', level: 'info', message })}\n\n`;

async function read(pieces: readonly string[]): Promise<string[]> {
  const found: string[] = [];
  async function* source(): AsyncGenerator<string> {
    yield* pieces;
  }
  for await (const { message } of readEvents(source())) found.push(message);
  return found;
}

it('reads events wherever the text is cut', async () => {
  const text = `: covey events\n\n${event('one')}${event('two\nlines')}: alive\n\n${event('three')}`;
  for (let cut = 0; cut <= text.length; cut++) {
    expect(await read([text.slice(0, cut), text.slice(cut)])).toEqual(['one', 'two\nlines', 'three']);
  }
});

it('passes over what it does not know, and an event that was cut off', async () => {
  const text = `data: {"id":1}\n\ndata: nonsense\n\n${event('good')}data: {"id":2,`;
  expect(await read([text])).toEqual(['good']);
});
