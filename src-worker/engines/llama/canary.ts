import { CoveyError } from '#shared/errors.ts';
import type { LoopbackAnswer } from './loopback-http.ts';

/**
 * The canary: eight greedy tokens of a fixed prompt. It proves that every stage computes (a stage whose memory
 * is bad, or whose backend miscompiled a kernel, gives NaN or nonsense ids), and judges no text.
 */
const canaryTokens = 8;
const canaryPrompt = 'Hello';

export const canaryRequest = {
  prompt: canaryPrompt,
  n_predict: canaryTokens,
  temperature: 0,
  top_k: 1,
  samplers: ['top_k'],
  // Two candidates per token: the first one's lead over the second is its margin.
  n_probs: 2,
  return_tokens: true,
  // A model that would end here must still show that it computes.
  ignore_eos: true,
  cache_prompt: false,
  stream: false,
} as const;

export interface CanaryAnswer {
  readonly tokenIds: number[];
  /** Lead of the first token over the runner-up in nats; null when there was no other candidate. */
  readonly firstMargin: number | null;
}

interface Probability {
  readonly id?: unknown;
  readonly logprob?: unknown;
  readonly top_logprobs?: readonly { readonly id?: unknown; readonly logprob?: unknown }[];
}

/**
 * Checks an answer to `canaryRequest` of `POST /completion`. Throws `canary_failed` naming what is wrong.
 * @param vocabularySize null when unknown
 */
export function checkCanary(answer: LoopbackAnswer, vocabularySize: number | null): CanaryAnswer {
  if (answer.status !== 200)
    throw refused(`the engine answered with HTTP ${answer.status}: ${excerpt(answer.text)}`);
  let body: { tokens?: unknown; completion_probabilities?: unknown };
  try {
    body = JSON.parse(answer.text) as typeof body;
  } catch {
    throw refused('the engine answered with something that is not JSON');
  }
  const tokenIds = Array.isArray(body.tokens) ? (body.tokens as unknown[]) : [];
  if (tokenIds.length === 0) throw refused('the engine generated no token');
  for (const id of tokenIds) {
    if (
      typeof id !== 'number' ||
      !Number.isInteger(id) ||
      id < 0 ||
      (vocabularySize !== null && id >= vocabularySize)
    ) {
      throw refused(`token id ${String(id)} is not in the model's vocabulary`);
    }
  }
  const probabilities = Array.isArray(body.completion_probabilities)
    ? (body.completion_probabilities as Probability[])
    : [];
  if (probabilities.length === 0) throw refused('the engine gave no probabilities');
  for (const entry of probabilities) {
    // JSON has no NaN: the engine writes null for it.
    if (typeof entry.logprob !== 'number' || !Number.isFinite(entry.logprob) || entry.logprob > 1e-3) {
      throw refused(`a token has the log probability ${String(entry.logprob)}: a stage computes wrongly`);
    }
  }
  return { tokenIds: tokenIds as number[], firstMargin: margin(probabilities[0] as Probability) };
}

function margin(first: Probability): number | null {
  const others = (first.top_logprobs ?? [])
    .filter((candidate) => candidate.id !== first.id)
    .map((candidate) => candidate.logprob)
    .filter((value): value is number => typeof value === 'number' && Number.isFinite(value));
  return others.length === 0 ? null : (first.logprob as number) - Math.max(...others);
}

function refused(reason: string): CoveyError {
  return new CoveyError('canary_failed', `the test prompt failed: ${reason}`);
}

function excerpt(text: string): string {
  return text.replace(/\s+/g, ' ').slice(0, 300);
}
