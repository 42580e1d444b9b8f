import OpenAI from 'openai';
import { beforeAll, describe, expect, test } from 'vitest';
import { predictChat, predictText } from '../../src-worker/models/predictable.ts';
import { heavyModel, predictableModel } from '../support/models.ts';
import { loadReady, startSplitCluster, type SplitCluster } from '../support/split-cluster.ts';
import { useCluster } from '../support/use-cluster.ts';
import { waitFor } from '../support/wait.ts';

const cluster = useCluster('file');

describe('the official OpenAI SDK', () => {
  let split: SplitCluster;
  let client: OpenAI;
  let model: string;
  let heavy: string;
  beforeAll(async () => {
    split = await startSplitCluster(cluster.current);
    ({ model } = await loadReady(split.controller, await predictableModel()));
    ({ model: heavy } = await loadReady(split.controller, await heavyModel(), { parallel: 1 }));
    client = new OpenAI({
      baseURL: `${split.controller.api}/v1`,
      apiKey: 'not-needed',
      maxRetries: 0,
      timeout: 60_000,
    });
  });

  const messages = [{ role: 'user' as const, content: 'Once upon a time' }];

  test('lists the models', async () => {
    const listed = await client.models.list();
    expect(listed.data.map(({ id }) => id)).toEqual(expect.arrayContaining([model, heavy]));
    expect(await client.models.retrieve(model)).toMatchObject({ id: model, object: 'model' });
  });

  test('chats, whole and streamed', async () => {
    const whole = await client.chat.completions.create({ model, messages, max_tokens: 60, temperature: 0 });
    const expected = predictChat(messages, 60);
    expect(whole.choices[0]?.message.content?.trim()).toBe(expected.trim());
    expect(whole.usage?.completion_tokens).toBeGreaterThan(0);

    let streamed = '';
    const stream = await client.chat.completions.create({
      model,
      messages,
      max_tokens: 60,
      temperature: 0,
      stream: true,
    });
    for await (const chunk of stream) streamed += chunk.choices[0]?.delta.content ?? '';
    expect(streamed.trim()).toBe(expected.trim());
  });

  test('completes, whole and streamed', async () => {
    const request = { model, prompt: 'Once upon a time', max_tokens: 80, temperature: 0 };
    const expected = predictText(request.prompt, request.max_tokens);
    expect((await client.completions.create(request)).choices[0]?.text).toBe(expected);
    let streamed = '';
    for await (const chunk of await client.completions.create({ ...request, stream: true }))
      streamed += chunk.choices[0]?.text ?? '';
    expect(streamed).toBe(expected);
  });

  test('embeds', async () => {
    const { data } = await client.embeddings.create({
      model,
      input: ['the forest', 'the morning'],
      encoding_format: 'float',
    });
    expect(data).toHaveLength(2);
    const [first, second] = data.map((entry) => entry.embedding);
    expect(first?.length).toBeGreaterThan(16);
    expect(first?.every(Number.isFinite)).toBe(true);
    expect(first).not.toEqual(second);
  });

  test('32 streams at once all end with the predicted text', async () => {
    const expected = predictText('the forest', 40);
    const texts = await Promise.all(
      Array.from({ length: 32 }, async () => {
        let text = '';
        const stream = await client.completions.create({
          model,
          prompt: 'the forest',
          max_tokens: 40,
          temperature: 0,
          stream: true,
        });
        for await (const chunk of stream) text += chunk.choices[0]?.text ?? '';
        return text;
      }),
    );
    expect(new Set(texts)).toEqual(new Set([expected]));
  });

  test('an abort in mid-stream frees the slot within a second', async () => {
    const abort = new AbortController();
    const stream = await client.completions.create(
      { model: heavy, prompt: 'once', max_tokens: 3_000, temperature: 0, stream: true },
      { signal: abort.signal },
    );
    let tokens = 0;
    let abortedAt = 0;
    try {
      for await (const _chunk of stream) {
        tokens += 1;
        if (tokens === 10) {
          abortedAt = Date.now();
          abort.abort();
        }
      }
    } catch (error) {
      expect(error).toBeInstanceOf(OpenAI.APIUserAbortError);
    }
    expect(tokens).toBeLessThan(1_000);
    await waitFor(
      'the request to be over',
      async () => (await split.controller.client.call('status')).requestsRunning === 0,
      1_000,
      20,
    );
    // One slot only: the next request is answered at once only if the first has left it.
    const next = await client.completions.create({
      model: heavy,
      prompt: 'next',
      max_tokens: 1,
      temperature: 0,
    });
    expect(next.choices).toHaveLength(1);
    expect(Date.now() - abortedAt).toBeLessThan(3_000);
  });

  test('errors arrive as the SDK knows them', async () => {
    await expect(client.completions.create({ model: 'nope', prompt: 'x' })).rejects.toMatchObject({
      status: 404,
      code: 'model_not_found',
      message: expect.stringContaining(model),
    });
    await expect(client.chat.completions.create({ model, messages: 'x' as never })).rejects.toMatchObject({
      status: 400,
    });
  });
});
