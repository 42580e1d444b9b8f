import { describe, expect, it, vi } from 'vitest';
import { CoveyError } from '#shared/errors.ts';
import type { WorkerFrame } from '#shared/protocol/session.ts';
import { handlers } from './fixtures.ts';
import { createRequestServer, type RequestContext, type RequestHandlers } from './requests.ts';

function server(overrides: Partial<RequestHandlers> = {}) {
  const sent: WorkerFrame[] = [];
  const given = handlers({
    'model.resolve': async () =>
      Promise.reject(new CoveyError('model_file_not_found', 'no such file', { field: 'model' })),
    'model.list': async () => ({ models: [] }),
    'model.import': async () => Promise.reject(new Error('boom')),
    'model.pull': async () => Promise.reject(new CoveyError('hub_unreachable', 'no network')),
    'model.remove': async () => ({}),
    ...overrides,
  });
  const requests = createRequestServer(given, (frame) => sent.push(frame));
  const ask = (id: number, method: string, params: unknown = {}, deadlineMs = 5_000): void => {
    requests.handle({ type: 'request', id, method, params, deadlineMs });
  };
  return { requests, ask, sent };
}

const forever =
  (seen: RequestContext[] = []): RequestHandlers['model.list'] =>
  (_params, context) => {
    seen.push(context);
    return new Promise(() => undefined);
  };

describe('requests', () => {
  it('are answered with a value or the error of their handler', async () => {
    const { ask, sent } = server();
    ask(1, 'model.list');
    ask(2, 'model.resolve', { model: '/x.gguf' });
    ask(3, 'model.import', { path: '/x.gguf' });
    await vi.waitFor(() => expect(sent).toHaveLength(3));
    expect(sent).toEqual([
      { type: 'response', id: 1, result: { ok: true, value: { models: [] } } },
      {
        type: 'response',
        id: 2,
        result: {
          ok: false,
          error: { code: 'model_file_not_found', message: 'no such file', field: 'model' },
        },
      },
      { type: 'response', id: 3, result: { ok: false, error: { code: 'internal_error', message: 'boom' } } },
    ]);
  });

  it.each([
    ['an unknown method', 'model.explode', {}, 'method'],
    ['the name of a property of objects', 'constructor', {}, 'method'],
    ['a missing parameter', 'model.resolve', {}, 'model'],
    ['a parameter of another type', 'model.pull', { source: 7 }, 'source'],
  ])('with %s are refused naming the field', async (_case, method, params, field) => {
    const { ask, sent } = server();
    ask(1, method, params);
    await vi.waitFor(() => expect(sent).toHaveLength(1));
    expect(sent[0]).toMatchObject({
      id: 1,
      result: { ok: false, error: { code: 'invalid_request', field } },
    });
  });

  it('end at their deadline and when cancelled, whatever the handler does', async () => {
    const seen: RequestContext[] = [];
    const { requests, ask, sent } = server({ 'model.list': forever(seen) });
    ask(1, 'model.list', {}, 20);
    ask(2, 'model.list');
    requests.cancel(2);
    await vi.waitFor(() => expect(sent).toHaveLength(2));
    expect(sent).toMatchObject([
      { id: 2, result: { error: { code: 'cancelled' } } },
      { id: 1, result: { error: { code: 'timeout' } } },
    ]);
    expect(seen.every(({ signal }) => signal.aborted)).toBe(true);
  });

  it('report progress, bounded in rate, the last value included', async () => {
    const { ask, sent } = server({
      'model.list': async (_params, { progress }) => {
        for (let done = 0; done <= 100; done += 1) progress({ doneBytes: done });
        await new Promise((resolve) => setTimeout(resolve, 300));
        return { models: [] };
      },
    });
    ask(1, 'model.list');
    await vi.waitFor(() => expect(sent.at(-1)).toMatchObject({ type: 'response' }), { timeout: 2_000 });
    expect(sent.filter((frame) => frame.type === 'progress')).toEqual([
      { type: 'progress', id: 1, value: { doneBytes: 0 } },
      { type: 'progress', id: 1, value: { doneBytes: 100 } },
    ]);
  });

  it('beyond the limit are refused, and none is answered after the session', async () => {
    const { requests, ask, sent } = server({ 'model.list': forever() });
    for (let id = 1; id <= 33; id += 1) ask(id, 'model.list');
    expect(sent).toMatchObject([{ id: 33, result: { error: { code: 'too_many_requests' } } }]);
    requests.abortAll();
    await new Promise((resolve) => setImmediate(resolve));
    expect(sent).toHaveLength(1);
  });
});
