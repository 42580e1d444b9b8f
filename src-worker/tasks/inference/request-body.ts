import type { Work } from '#shared/domain/task.ts';
import { CoveyError } from '#shared/errors.ts';

export type InferenceWork = Extract<Work, { kind: 'inference' }>;

export const inferencePaths = {
  chat: '/v1/chat/completions',
  completion: '/v1/completions',
  embedding: '/v1/embeddings',
} as const;

/**
 * The request of one record.
 *
 * 1. text: the line is the prompt, or fills `{line}` of `prompt`.
 * 2. jsonl with `prompt`: its `{field}`s are the record's; objects and numbers are written as JSON.
 * 3. jsonl without: the record's own `messages`, `prompt` or `input`, and whatever parameters it has beside them.
 *
 * The job's parameters count over the record's; the model and that nothing is streamed are the job's.
 * @returns null for an empty line
 * @throws CoveyError `dataset_invalid`
 */
export function requestBody(work: InferenceWork, record: string): Record<string, unknown> | null {
  const line = record.replace(/\r?\n$/, '');
  if (line.trim() === '') return null;
  const fixed = { ...work.parameters, model: work.model };
  if (work.dataset.format !== 'jsonl') {
    const text = work.prompt === null ? line : fill(work.prompt, { line });
    return { ...asked(work, text), ...fixed };
  }
  const fields = objectOf(line);
  if (work.prompt !== null) return { ...asked(work, fill(work.prompt, fields)), ...fixed };
  const { model: _model, stream: _stream, ...own } = fields;
  const key = { chat: 'messages', completion: 'prompt', embedding: 'input' }[work.task];
  if (own[key] === undefined) {
    if (work.task === 'chat' && typeof own['prompt'] === 'string') {
      const { prompt, ...rest } = own;
      return { ...rest, ...asked(work, prompt), ...fixed };
    }
    throw new CoveyError('dataset_invalid', `has no field "${key}", and the job has no prompt`);
  }
  const { messages } = own;
  const system =
    work.task === 'chat' && work.system !== null && Array.isArray(messages)
      ? { messages: [{ role: 'system', content: work.system }, ...(messages as unknown[])] }
      : {};
  return { ...own, ...system, ...fixed };
}

function asked({ task, system }: InferenceWork, text: string): Record<string, unknown> {
  if (task === 'completion') return { prompt: text };
  if (task === 'embedding') return { input: text };
  const user = { role: 'user', content: text };
  return { messages: system === null ? [user] : [{ role: 'system', content: system }, user] };
}

function objectOf(line: string): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch (error) {
    throw new CoveyError('dataset_invalid', `is no JSON: ${error instanceof Error ? error.message : ''}`);
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new CoveyError('dataset_invalid', 'is no JSON object');
  }
  return value as Record<string, unknown>;
}

/** `{name}` of a field; `{{` is a brace. What is no name of a field stays as it is. */
function fill(prompt: string, fields: Readonly<Record<string, unknown>>): string {
  return prompt.replace(/\{\{|\{([^{}]+)\}/g, (found, name: string | undefined) => {
    if (name === undefined) return '{';
    if (!Object.hasOwn(fields, name)) throw new CoveyError('dataset_invalid', `has no field "${name}"`);
    const value = fields[name];
    return typeof value === 'string' ? value : (JSON.stringify(value) ?? found);
  });
}
