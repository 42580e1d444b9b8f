import { create } from 'zustand';
import { CoveyError } from '#shared/errors.ts';
import type { ApiClient } from '../../api-client/api-client.ts';
import { numberProblem } from '../../format/read-number.ts';
import { useSession } from '../../stores/session.ts';
import { createChatStreamReader, type ChatStreamEvent } from './chat-stream.ts';
import { ask, fail, finish, hear, isAnswering, messages, takeBack, type Turn } from './conversation.ts';

/** `chat`: the model's own way of talking. `text`: it goes on with what it is given. */
export type Mode = 'chat' | 'text';

interface ChatState {
  readonly turns: readonly Turn[];
  readonly draft: string;
  /** null: the first that is ready. */
  readonly model: string | null;
  /** null: by what the model can do. */
  readonly mode: Mode | null;
  readonly systemPrompt: string;
  /** As typed: it may be out of range, NaN, or null where nothing stands. Then nothing can be asked. */
  readonly temperature: number | null;
  /** null: until the model ends or the context is full. As typed, too. */
  readonly maxTokens: number | null;
}

export const ranges = {
  temperature: { min: 0, max: 5, whole: false },
  maxTokens: { min: 1, max: 1_000_000, whole: true },
} as const;

/** Whether a question can be asked with the parameters as they are typed. */
export function areParametersRight({ temperature, maxTokens }: ChatState): boolean {
  return (
    temperature !== null &&
    numberProblem(temperature, ranges.temperature) === null &&
    numberProblem(maxTokens, ranges.maxTokens) === null
  );
}

const fresh: ChatState = {
  turns: [],
  draft: '',
  model: null,
  mode: null,
  systemPrompt: '',
  temperature: 0.7,
  maxTokens: 512,
};

/** Survives going to another page and back, but is written nowhere: it ends with the tab or the login. */
export const useChat = create<ChatState>(() => fresh);

let answering: AbortController | null = null;

useSession.subscribe(({ token }) => {
  if (token !== null) return;
  answering?.abort();
  useChat.setState(fresh);
});

export function setChat(change: Partial<Omit<ChatState, 'turns'>>): void {
  useChat.setState(change);
}

export function clearChat(): void {
  answering?.abort();
  useChat.setState({ turns: [] });
}

export function stopAnswer(): void {
  answering?.abort();
}

/** Puts the last question back into the field, to change it or ask it again. */
export function editLast(): void {
  answering?.abort();
  useChat.setState(({ turns }) => {
    const back = takeBack(turns);
    return { turns: back.turns, draft: back.text };
  });
}

export interface Question {
  readonly api: ApiClient;
  readonly text: string;
  readonly model: string;
  readonly mode: Mode;
  /** Names of the machines that serve the model now. */
  readonly machines: readonly string[];
}

/** Asks, and resolves when the answer is over; failures are in the answer itself. */
export async function sendQuestion({ api, text, model, mode, machines }: Question): Promise<void> {
  if (isAnswering(useChat.getState().turns)) return;
  const abort = new AbortController();
  answering = abort;
  useChat.setState(({ turns }) => ({ turns: ask(turns, text, Date.now(), machines), draft: '' }));
  const change = (next: (turns: readonly Turn[]) => readonly Turn[]): void => {
    // After "clear" another conversation may have begun.
    if (answering === abort) useChat.setState(({ turns }) => ({ turns: next(turns) }));
  };
  const news = batched((events) => change((turns) => hear(turns, events, Date.now())));
  try {
    const reader = createChatStreamReader();
    const [path, body] = request(model, mode, text);
    for await (const part of api.streamText(path, body, abort.signal)) news.add(reader.push(part));
    news.add(reader.end());
    news.flush();
    change((turns) => finish(turns, 'done', Date.now()));
  } catch (error) {
    news.flush();
    const failure = CoveyError.from(error);
    if (abort.signal.aborted) change((turns) => finish(turns, 'stopped', Date.now()));
    else change((turns) => fail(turns, failure.message, Date.now()));
  } finally {
    if (answering === abort) answering = null;
  }
}

function request(
  model: string,
  mode: Mode,
  text: string,
): [`/v1/${string}`, Readonly<Record<string, unknown>>] {
  const { turns, systemPrompt, temperature, maxTokens } = useChat.getState();
  const shared = {
    model,
    stream: true,
    stream_options: { include_usage: true },
    temperature,
    ...(maxTokens === null ? {} : { max_tokens: maxTokens }),
  };
  if (mode === 'text') return ['/v1/completions', { ...shared, prompt: text }];
  // The answer that is to come is the last turn, and empty.
  return ['/v1/chat/completions', { ...shared, messages: messages(turns, systemPrompt) }];
}

/** Tokens come faster than a screen can show: once a frame is enough. */
function batched(show: (events: readonly ChatStreamEvent[]) => void) {
  let waiting: ChatStreamEvent[] = [];
  let frame: number | null = null;
  const flush = (): void => {
    if (frame !== null) cancelAnimationFrame(frame);
    frame = null;
    const events = waiting;
    waiting = [];
    if (events.length > 0) show(events);
  };
  return {
    add(events: readonly ChatStreamEvent[]) {
      waiting.push(...events);
      if (waiting.length > 0) frame ??= requestAnimationFrame(flush);
    },
    flush,
  };
}
