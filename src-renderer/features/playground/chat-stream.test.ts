import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createChatStreamReader, type ChatStreamEvent } from './chat-stream.ts';

const chunk = (value: unknown): string => `data: ${JSON.stringify(value)}\n\n`;
const says = (content: string): string => chunk({ choices: [{ index: 0, delta: { content } }] });
const ending =
  chunk({
    choices: [{ delta: {}, finish_reason: 'stop' }],
    usage: { prompt_tokens: 5, completion_tokens: 3 },
    timings: { predicted_per_second: 41.5, prompt_per_second: 300 },
  }) + 'data: [DONE]\n\n';

function read(...parts: string[]): ChatStreamEvent[] {
  const reader = createChatStreamReader();
  return [...parts.flatMap((part) => reader.push(part)), ...reader.end()];
}

/** Neighbouring texts as one, so that cuts do not matter. */
function joined(events: readonly ChatStreamEvent[]): string {
  return events.flatMap((event) => (event.kind === 'text' ? event.text : [])).join('');
}

describe('a stream of chat', () => {
  it('is text, then how it ended, usage and speed', () => {
    expect(read(says('Hel'), says('lo'), ending)).toEqual([
      { kind: 'text', text: 'Hel' },
      { kind: 'text', text: 'lo' },
      { kind: 'usage', promptTokens: 5, answerTokens: 3 },
      { kind: 'speed', tokensPerS: 41.5, promptTokensPerS: 300 },
      { kind: 'finish', reason: 'stop' },
    ]);
  });

  it('reads the same wherever it is cut and however lines end', () => {
    fc.assert(
      fc.property(
        fc.array(fc.string({ minLength: 1, unit: 'grapheme' }), { maxLength: 6 }),
        fc.array(fc.nat(2_000), { maxLength: 12 }),
        fc.constantFrom('\n', '\r\n'),
        (texts, cuts, newline) => {
          const whole = (': hello\n\n' + texts.map(says).join('') + ending).replaceAll('\n', newline);
          const places = [...new Set(cuts.map((cut) => cut % whole.length))].sort((a, b) => a - b);
          const parts = [0, ...places].map((from, index) => whole.slice(from, places[index] ?? whole.length));
          expect(read(...parts)).toEqual(read(whole));
          expect(joined(read(...parts))).toBe(texts.join(''));
        },
      ),
    );
  });

  it('of plain completions and with reasoning', () => {
    expect(read(chunk({ choices: [{ text: 'once', finish_reason: null }] }), 'data: [DONE]\n\n')).toEqual([
      { kind: 'text', text: 'once' },
    ]);
    expect(read(chunk({ choices: [{ delta: { reasoning_content: 'hm' } }] }), 'data: [DONE]')).toEqual([
      { kind: 'thought', text: 'hm' },
    ]);
  });

  it('that breaks off is an error, and what was said before it is kept', () => {
    const events = read(says('half'), 'data: {"choi');
    expect(joined(events)).toBe('half');
    expect(events.at(-1)).toMatchObject({ kind: 'error' });
    expect(read(says('half')).at(-1)).toMatchObject({ kind: 'error', code: 'stream_interrupted' });
  });

  it('with an error in it gives that error and no second one', () => {
    const error = { message: 'ben is gone', type: 'server_error', code: 'stage_lost' };
    expect(read(says('a'), chunk({ error }))).toEqual([
      { kind: 'text', text: 'a' },
      { kind: 'error', code: 'stage_lost', message: 'ben is gone' },
    ]);
    expect(read(`error: ${JSON.stringify({ error: { message: 'no', code: 500 } })}\n\n`)).toEqual([
      { kind: 'error', code: '500', message: 'no' },
    ]);
  });

  it('never throws on nonsense', () => {
    fc.assert(
      fc.property(fc.array(fc.string()), (parts) => {
        read(...parts, 'data: {"choices": 3}\n\n');
      }),
    );
    expect(read('data: 17\n\n').at(0)).toMatchObject({ kind: 'error', code: 'invalid_answer' });
  });
});
