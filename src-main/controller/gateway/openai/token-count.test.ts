import { Buffer } from 'node:buffer';
import { describe, expect, it } from 'vitest';
import { eventStreamHead, answer } from '../../../nodejs/http/fixtures.ts';
import { completion, done, hello, part, useScriptedGateway } from '../fixtures.ts';
import { createTokenCount } from './token-count.ts';

function counted(path: string, events: readonly number[]): number[] {
  const added: number[] = [];
  const count = createTokenCount(path, (tokens) => added.push(tokens));
  for (const sum of events) count.events(sum);
  return added;
}

describe('token count', () => {
  it('leaves out the events without a token', () => {
    expect(counted('/v1/chat/completions', [1, 2, 3, 4, 5, 5, 8])).toEqual([1, 1, 3]);
    expect(counted('/v1/completions', [1, 2, 3])).toEqual([1]);
    expect(counted('/v1/chat/completions', [0, 1, 2])).toEqual([]);
  });

  it('reads the usage of a whole answer, and nothing that only looks like it', () => {
    const whole = (text: string): number[] => {
      const added: number[] = [];
      createTokenCount('/v1/completions', (tokens) => added.push(tokens)).whole(Buffer.from(text));
      return added;
    };
    expect(whole('{"choices":[],"usage":{"completion_tokens":17,"prompt_tokens":3}}')).toEqual([17]);
    expect(whole('{"usage":{"completion_tokens": 5}}')).toEqual([5]);
    expect(whole(JSON.stringify({ text: '"completion_tokens":99' }))).toEqual([]);
    expect(whole('{"usage":{"completion_tokens":0}}')).toEqual([]);
    expect(whole('')).toEqual([]);
  });
});

describe('tokens of requests', () => {
  const gateway = useScriptedGateway();

  it('are counted as they stream', async () => {
    gateway.script = ({ socket }) =>
      socket.end(eventStreamHead + part('') + part('a') + part('b') + part('c') + part('') + done);
    const stream = await gateway.client.chat.completions.create({ ...hello, stream: true });
    for await (const _event of stream);
    await gateway.ended();
    expect(gateway.routes.generated).toBe(3);
  });

  it('are taken from the usage of an answer that is whole', async () => {
    gateway.script = ({ socket }) =>
      socket.end(answer(200, completion.replace(/}$/, ',"usage":{"completion_tokens":12}}')));
    await gateway.client.chat.completions.create(hello);
    expect(gateway.routes.generated).toBe(12);
  });
});
