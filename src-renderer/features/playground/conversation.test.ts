import { describe, expect, it } from 'vitest';
import { ask, fail, finish, hear, isAnswering, messages, takeBack, tokensPerS } from './conversation.ts';

const begun = ask([], 'Hello', 1_000, ['anna', 'ben']);

describe('a conversation', () => {
  it('asks, hears and ends', () => {
    expect(isAnswering(begun)).toBe(true);
    const some = hear(begun, [{ kind: 'text', text: 'Hi' }], 1_200);
    const more = hear(
      some,
      [
        { kind: 'thought', text: 'hm' },
        { kind: 'text', text: '!' },
        { kind: 'usage', promptTokens: 4, answerTokens: 3 },
        { kind: 'finish', reason: 'length' },
      ],
      1_400,
    );
    const over = finish(more, 'done', 1_500);
    expect(over.at(-1)).toMatchObject({
      text: 'Hi!',
      thought: 'hm',
      state: 'done',
      firstTokenAt: 1_200,
      endedAt: 1_500,
      pieces: 3,
      answerTokens: 3,
      promptTokens: 4,
      finishReason: 'length',
      machines: ['anna', 'ben'],
    });
    expect(isAnswering(over)).toBe(false);
    expect(hear(over, [{ kind: 'text', text: 'late' }], 1_600)).toEqual(over);
  });

  it('that fails or is stopped keeps what was said', () => {
    const some = hear(begun, [{ kind: 'text', text: 'Hi' }], 1_200);
    const failed = hear(some, [{ kind: 'error', code: 'stage_lost', message: 'ben is gone' }], 1_300);
    expect(failed.at(-1)).toMatchObject({
      text: 'Hi',
      state: 'failed',
      error: 'ben is gone',
      endedAt: 1_300,
    });
    expect(finish(failed, 'done', 1_400)).toEqual(failed);
    expect(finish(some, 'stopped', 1_300).at(-1)).toMatchObject({ text: 'Hi', state: 'stopped' });
    expect(fail(begun, 'no machine', 1_300).at(-1)).toMatchObject({ state: 'failed', error: 'no machine' });
  });

  it('sends what was said, without answers that never began', () => {
    const failed = fail(begun, 'no machine', 1_300);
    const again = ask(failed, 'Still there?', 2_000, []);
    expect(messages(again, ' Be brief. ')).toEqual([
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'Hello' },
      { role: 'user', content: 'Still there?' },
    ]);
    expect(new Set(again.map((turn) => turn.id)).size).toBe(4);
  });

  it('takes the last question back', () => {
    const two = ask(finish(begun, 'done', 1_500), 'Second', 2_000, []);
    expect(takeBack(two)).toEqual({ turns: finish(begun, 'done', 1_500), text: 'Second' });
    expect(takeBack([])).toEqual({ turns: [], text: '' });
  });
});

describe('tokens a second', () => {
  it('are the engine’s own when it says so', () => {
    const turn = hear(begun, [{ kind: 'speed', tokensPerS: 12.5, promptTokensPerS: null }], 1_100).at(-1);
    expect(turn && tokensPerS(turn)).toBe(12.5);
  });

  it('else come from the pieces since the first one', () => {
    let turns = begun;
    for (let index = 0; index <= 10; index++)
      turns = hear(turns, [{ kind: 'text', text: 'x' }], 2_000 + index * 100);
    const turn = turns.at(-1);
    expect(turn && tokensPerS(turn)).toBe(10);
    expect(turn && tokensPerS({ ...turn, answerTokens: 21 })).toBe(20);
    expect(turn && tokensPerS({ ...turn, pieces: 1 })).toBeNull();
    expect(turn && tokensPerS({ ...turn, lastTokenAt: 2_010 })).toBeNull();
  });
});
