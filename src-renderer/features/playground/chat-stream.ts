import { z } from 'zod';

/**
 * What an OpenAI-shaped stream of `/v1/chat/completions` or `/v1/completions` says, chunk by chunk. Bytes may be cut
 * anywhere. A body that is no stream (an error) is read whole by `end`.
 */
export type ChatStreamEvent =
  | { readonly kind: 'text'; readonly text: string }
  /** Reasoning that the engine separates from the answer. */
  | { readonly kind: 'thought'; readonly text: string }
  | { readonly kind: 'finish'; readonly reason: string }
  | { readonly kind: 'usage'; readonly promptTokens: number; readonly answerTokens: number }
  /** As the engine measured it. */
  | { readonly kind: 'speed'; readonly tokensPerS: number; readonly promptTokensPerS: number | null }
  | { readonly kind: 'error'; readonly code: string; readonly message: string };

const delta = z.object({ content: z.string().nullish(), reasoning_content: z.string().nullish() });
const chunkSchema = z.object({
  choices: z
    .array(
      z.object({
        delta: delta.nullish(),
        text: z.string().nullish(),
        finish_reason: z.string().nullish(),
      }),
    )
    .nullish(),
  usage: z.object({ prompt_tokens: z.number(), completion_tokens: z.number() }).nullish(),
  timings: z
    .object({ predicted_per_second: z.number().nullish(), prompt_per_second: z.number().nullish() })
    .nullish(),
  error: z.object({ message: z.string(), code: z.union([z.string(), z.number()]).nullish() }).nullish(),
});

/** A line longer than this is no answer of an engine. */
const maxLineCharacters = 4 * 1024 * 1024;

export interface ChatStreamReader {
  push(text: string): ChatStreamEvent[];
  /** What is left when the body ends: the last line, or an error if the stream never said that it is done. */
  end(): ChatStreamEvent[];
}

export function createChatStreamReader(): ChatStreamReader {
  let rest = '';
  let data: string[] = [];
  let closed = false;

  const dispatch = (): ChatStreamEvent[] => {
    const text = data.join('\n');
    data = [];
    if (text === '') return [];
    if (text.trim() === '[DONE]') {
      closed = true;
      return [];
    }
    const events = readChunk(text);
    if (events.some((event) => event.kind === 'error' || event.kind === 'finish')) closed = true;
    return events;
  };

  const line = (text: string): ChatStreamEvent[] => {
    if (text === '') return dispatch();
    // Some servers write errors under a field of that name.
    const field = /^(data|error):\s?(.*)$/s.exec(text);
    if (field) data.push(field[2] ?? '');
    return [];
  };

  return {
    push(text) {
      rest += text;
      if (rest.length > maxLineCharacters) {
        rest = '';
        closed = true;
        return [{ kind: 'error', code: 'invalid_answer', message: 'The answer has a line without an end.' }];
      }
      const lines = rest.split(/\r\n|\n|\r(?=.)/s);
      rest = lines.pop() ?? '';
      return lines.flatMap(line);
    },
    end() {
      const events = [...(rest === '' ? [] : line(rest.replace(/\r$/, ''))), ...dispatch()];
      rest = '';
      if (closed) return events;
      closed = true;
      const message = 'The answer broke off: the machine or the connection that served it is gone.';
      return [...events, { kind: 'error', code: 'stream_interrupted', message }];
    },
  };
}

function readChunk(text: string): ChatStreamEvent[] {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return [{ kind: 'error', code: 'invalid_answer', message: 'The answer has a part that is not JSON.' }];
  }
  const parsed = chunkSchema.safeParse(value);
  if (!parsed.success)
    return [
      { kind: 'error', code: 'invalid_answer', message: 'The answer has a part of a shape that is unknown.' },
    ];
  const { choices, usage, timings, error } = parsed.data;
  const events: ChatStreamEvent[] = [];
  if (error)
    events.push({ kind: 'error', code: String(error.code ?? 'engine_error'), message: error.message });
  for (const choice of choices ?? []) {
    const thought = choice.delta?.reasoning_content ?? '';
    const answer = choice.delta?.content ?? choice.text ?? '';
    if (thought !== '') events.push({ kind: 'thought', text: thought });
    if (answer !== '') events.push({ kind: 'text', text: answer });
  }
  if (usage) {
    const { prompt_tokens: promptTokens, completion_tokens: answerTokens } = usage;
    events.push({ kind: 'usage', promptTokens, answerTokens });
  }
  if (timings?.predicted_per_second != null && Number.isFinite(timings.predicted_per_second)) {
    const promptTokensPerS = timings.prompt_per_second ?? null;
    events.push({ kind: 'speed', tokensPerS: timings.predicted_per_second, promptTokensPerS });
  }
  const reason = choices?.find((choice) => choice.finish_reason != null)?.finish_reason;
  if (reason != null) events.push({ kind: 'finish', reason });
  return events;
}
