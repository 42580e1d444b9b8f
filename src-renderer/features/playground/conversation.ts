import type { ChatStreamEvent } from './chat-stream.ts';

/** What is said in the playground. Kept in memory only: it ends with the page. */
export interface Turn {
  readonly id: number;
  readonly role: 'user' | 'assistant';
  readonly text: string;
  readonly thought: string;
  /** An answer's way: `waiting` until its first token, then `running`, and how it ended. */
  readonly state: 'said' | 'waiting' | 'running' | 'done' | 'stopped' | 'failed';
  readonly error: string | null;
  readonly askedAt: number;
  readonly firstTokenAt: number | null;
  readonly lastTokenAt: number | null;
  readonly endedAt: number | null;
  /** Pieces that came; the engine sends one for each token. */
  readonly pieces: number;
  readonly answerTokens: number | null;
  readonly promptTokens: number | null;
  /** As the engine measured it, when it says so. */
  readonly engineTokensPerS: number | null;
  /** `length`: it hit the limit of tokens. */
  readonly finishReason: string | null;
  /** Names of the machines that served it, the leader first. */
  readonly machines: readonly string[];
}

const said = {
  thought: '',
  error: null,
  firstTokenAt: null,
  lastTokenAt: null,
  endedAt: null,
  pieces: 0,
  answerTokens: null,
  promptTokens: null,
  engineTokensPerS: null,
  finishReason: null,
  machines: [],
} as const;

export function ask(turns: readonly Turn[], text: string, at: number, machines: readonly string[]): Turn[] {
  const id = (turns.at(-1)?.id ?? 0) + 1;
  return [
    ...turns,
    { ...said, id, role: 'user', text, state: 'said', askedAt: at },
    { ...said, id: id + 1, role: 'assistant', text: '', state: 'waiting', askedAt: at, machines },
  ];
}

/** The answer that is being given, after what has just come of it. */
export function hear(turns: readonly Turn[], events: readonly ChatStreamEvent[], at: number): Turn[] {
  return answerOf(turns, (turn) => events.reduce((answer, event) => apply(answer, event, at), turn));
}

function apply(turn: Turn, event: ChatStreamEvent, at: number): Turn {
  switch (event.kind) {
    case 'text':
    case 'thought': {
      const grown =
        event.kind === 'text' ? { text: turn.text + event.text } : { thought: turn.thought + event.text };
      const firstTokenAt = turn.firstTokenAt ?? at;
      return { ...turn, ...grown, state: 'running', firstTokenAt, lastTokenAt: at, pieces: turn.pieces + 1 };
    }
    case 'finish':
      return { ...turn, finishReason: event.reason };
    case 'usage':
      return { ...turn, answerTokens: event.answerTokens, promptTokens: event.promptTokens };
    case 'speed':
      return { ...turn, engineTokensPerS: event.tokensPerS };
    case 'error':
      return { ...turn, state: 'failed', error: event.message, endedAt: at };
  }
}

/** The answer is over. What failed before stays failed. */
export function finish(turns: readonly Turn[], how: 'done' | 'stopped', at: number): Turn[] {
  return answerOf(turns, (turn) => ({ ...turn, state: how, endedAt: at }));
}

export function fail(turns: readonly Turn[], message: string, at: number): Turn[] {
  return answerOf(turns, (turn) => ({ ...turn, state: 'failed', error: message, endedAt: at }));
}

/** Takes the last question and its answer back, to ask it again or otherwise. */
export function takeBack(turns: readonly Turn[]): { turns: Turn[]; text: string } {
  const last = turns.findLastIndex((turn) => turn.role === 'user');
  if (last === -1) return { turns: [...turns], text: '' };
  return { turns: turns.slice(0, last), text: turns[last]?.text ?? '' };
}

export function isAnswering(turns: readonly Turn[]): boolean {
  const state = turns.at(-1)?.state;
  return state === 'waiting' || state === 'running';
}

function answerOf(turns: readonly Turn[], change: (turn: Turn) => Turn): Turn[] {
  const last = turns.at(-1);
  if (last === undefined || !isAnswering(turns)) return [...turns];
  return [...turns.slice(0, -1), change(last)];
}

/**
 * Tokens a second: what the engine measured, else what came here from the first piece to the last. Null until there
 * is enough to say something.
 */
export function tokensPerS(turn: Turn): number | null {
  if (turn.engineTokensPerS !== null) return turn.engineTokensPerS;
  const { firstTokenAt, lastTokenAt } = turn;
  const tokens = turn.answerTokens ?? turn.pieces;
  if (firstTokenAt === null || lastTokenAt === null || tokens < 2) return null;
  const elapsedMs = lastTokenAt - firstTokenAt;
  return elapsedMs < 50 ? null : ((tokens - 1) / elapsedMs) * 1000;
}

/** The messages that the next request carries: what was said, without answers that failed before their first word. */
export function messages(
  turns: readonly Turn[],
  systemPrompt: string,
): { role: 'system' | 'user' | 'assistant'; content: string }[] {
  const system = systemPrompt.trim();
  const spoken = turns.filter((turn) => turn.role === 'user' || turn.text !== '');
  return [
    ...(system === '' ? [] : [{ role: 'system' as const, content: system }]),
    ...spoken.map((turn) => ({ role: turn.role, content: turn.text })),
  ];
}
