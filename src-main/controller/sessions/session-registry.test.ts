import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import type { NodeId } from '#shared/lib/ids.ts';
import { controllerFrame, type ControllerFrame } from '#shared/protocol/session.ts';
import { createSessionPair } from '../../nodejs/transport/memory-session.ts';
import { deployment, deploymentId, nodeId, observation, replica, telemetry } from '../state/fixtures.ts';
import { exampleHello as hello, openSessionBench, type SessionBench } from './fixtures.ts';

const controllerId = nodeId('f');

let bench: SessionBench;
beforeEach(() => {
  bench = openSessionBench();
});
afterEach(() => bench.close());

function dial(id: NodeId) {
  const pair = createSessionPair(controllerId, id);
  const frames: ControllerFrame[] = [];
  let closed = false;
  pair.atWorker.onMessage((text) => frames.push(controllerFrame.parse(JSON.parse(text))));
  pair.atWorker.onClose(() => (closed = true));
  bench.registry.accept(pair.atController);
  return {
    frames,
    send: (frame: unknown) => pair.atWorker.send(typeof frame === 'string' ? frame : JSON.stringify(frame)),
    until: (type: ControllerFrame['type']) =>
      vi.waitFor(() => {
        const frame = frames.findLast((candidate) => candidate.type === type);
        if (!frame) throw new Error(`no ${type} among ${frames.map((f) => f.type).join(' ')}`);
        return frame;
      }),
    untilClosed: () => vi.waitFor(() => expect(closed).toBe(true)),
    close: () => pair.atWorker.close(),
  };
}

describe('session registry', () => {
  test('hello is answered by welcome, members and assignments, heartbeats by acks', async () => {
    const worker = dial(nodeId('a'));
    worker.send(hello);
    await worker.until('assignments');
    expect(worker.frames.map((frame) => frame.type)).toEqual(['welcome', 'members', 'assignments']);
    worker.send({ type: 'heartbeat', seq: 7, telemetry, problems: [] });
    expect(await worker.until('ack')).toEqual({ type: 'ack', seq: 7, at: expect.any(Number) });
    expect(bench.runtime.state.nodes.get(nodeId('a'))?.live.session).not.toBeNull();
  });

  test('a replica placed on a connected node is pushed to it with a higher generation', async () => {
    const worker = dial(nodeId('a'));
    worker.send(hello);
    const first = await worker.until('assignments');
    bench.runtime.dispatch(
      {
        type: 'deployment-created',
        at: 1,
        deployment: deployment({ nextAttemptAt: Number.MAX_SAFE_INTEGER }),
      },
      { type: 'replica-placed', at: 1, deploymentId, replica: { ...replica(), stages: [] } },
    );
    await vi.waitFor(() => expect(worker.frames.filter((f) => f.type === 'assignments')).toHaveLength(2));
    const second = await worker.until('assignments');
    expect(second).toMatchObject({ engines: [{ kind: 'llama', engineId: 'd-00000001.1.0' }] });
    expect('generation' in second && 'generation' in first && second.generation > first.generation).toBe(
      true,
    );
    worker.send({ type: 'observed', generation: 2, engines: [observation(1, 0)] });
    await vi.waitFor(() => expect(bench.runtime.state.deployments.get(deploymentId)?.phase).toBe('ready'));
  });

  test.each([
    ['another protocol version', { ...hello, protocol: 99 }, 'protocol_version_mismatch'],
    ['a frame before hello', { type: 'heartbeat', seq: 1, telemetry, problems: [] }, 'invalid_request'],
    ['something that is not JSON', '{', 'invalid_request'],
    ['a hello that lacks a field', { ...hello, bootId: 'short' }, 'invalid_request'],
  ])('%s is refused by name and closed', async (_name, frame, code) => {
    const worker = dial(nodeId('a'));
    worker.send(frame);
    expect(await worker.until('refused')).toMatchObject({ error: { code } });
    await worker.untilClosed();
    expect(bench.runtime.state.nodes.get(nodeId('a'))?.live.session).toBeNull();
  });

  test('a key that is no member is refused', async () => {
    const stranger = dial(nodeId('b'));
    stranger.send(hello);
    expect(await stranger.until('refused')).toMatchObject({ error: { code: 'not_a_member' } });
  });

  test('a second session of a node replaces the first, whose end then changes nothing', async () => {
    const first = dial(nodeId('a'));
    first.send(hello);
    await first.until('welcome');
    const second = dial(nodeId('a'));
    second.send(hello);
    await second.until('welcome');
    await first.untilClosed();
    expect(bench.runtime.state.nodes.get(nodeId('a'))?.live.session).not.toBeNull();
  });

  test('requests are answered, refused, late or ended with the session', async () => {
    const worker = dial(nodeId('a'));
    worker.send(hello);
    await worker.until('welcome');
    const ask = (deadlineMs: number) => bench.registry.request(nodeId('a'), 'model.list', {}, { deadlineMs });

    const answered = ask(1_000);
    const request = await worker.until('request');
    worker.send({
      type: 'response',
      id: 'id' in request ? request.id : 0,
      result: { ok: true, value: { models: [] } },
    });
    await expect(answered).resolves.toEqual({ models: [] });

    await expect(ask(20)).rejects.toMatchObject({ code: 'timeout' });
    await worker.until('cancel');

    const nonsense = ask(1_000);
    await vi.waitFor(() => expect(worker.frames.filter((f) => f.type === 'request')).toHaveLength(3));
    const third = await worker.until('request');
    worker.send({
      type: 'response',
      id: 'id' in third ? third.id : 0,
      result: { ok: true, value: { models: 'none' } },
    });
    await expect(nonsense).rejects.toMatchObject({ code: 'internal_error' });

    const cut = ask(5_000);
    worker.close();
    await expect(cut).rejects.toMatchObject({ code: 'node_not_ready' });
    await expect(ask(1_000)).rejects.toMatchObject({ code: 'node_not_ready' });
  });

  test('who is lost and lives has to come anew', async () => {
    const worker = dial(nodeId('a'));
    worker.send(hello);
    await worker.until('welcome');
    bench.runtime.dispatch({ type: 'node-lost', at: 1, nodeId: nodeId('a') });
    await worker.untilClosed();
    const again = dial(nodeId('a'));
    again.send(hello);
    await again.until('welcome');
    expect(bench.runtime.state.nodes.get(nodeId('a'))?.live).toMatchObject({ lost: false });
  });

  test('goodbye makes the node offline', async () => {
    const worker = dial(nodeId('a'));
    worker.send(hello);
    await worker.until('welcome');
    worker.send({ type: 'goodbye', reason: 'switched off' });
    await vi.waitFor(() =>
      expect(bench.runtime.state.nodes.get(nodeId('a'))?.durable.saidGoodbye).toBe(true),
    );
  });
});
