import { apiEventSchema } from '../../src-main/shared/api/schema.ts';
import type { DeploymentLive, Live, NodeLive } from '../../src-main/shared/api/dashboard.ts';
import type { RunningController } from './cluster.ts';
import { waitFor } from './wait.ts';

/** The live figures of a controller as a dashboard has them. */
export interface LiveView {
  /** What came, in order. */
  readonly updates: readonly Live[];
  readonly nodes: ReadonlyMap<string, NodeLive>;
  readonly deployments: ReadonlyMap<string, DeploymentLive>;
  /** Waits until the figures are such. */
  until(description: string, test: (view: LiveView) => boolean, timeoutMs?: number): Promise<void>;
  close(): void;
}

/** Follows `GET /api/events?live=1`. Whoever opens it closes it. */
export async function followLive(controller: RunningController): Promise<LiveView> {
  const stop = new AbortController();
  const response = await fetch(`${controller.api}/api/events?live=1`, {
    headers: { authorization: `Bearer ${controller.token}` },
    signal: stop.signal,
  });
  if (response.status !== 200 || !response.body) throw new Error(`live figures: ${response.status}`);
  const updates: Live[] = [];
  const nodes = new Map<string, NodeLive>();
  const deployments = new Map<string, DeploymentLive>();
  const take = (block: string): void => {
    const data = block.split('\n').find((line) => line.startsWith('data: '));
    const live = data && apiEventSchema.parse(JSON.parse(data.slice('data: '.length))).live;
    if (!live) return;
    updates.push(live);
    for (const node of live.nodes) nodes.set(node.id, node);
    for (const deployment of live.deployments) deployments.set(deployment.id, deployment);
  };
  const { body } = response;
  const read = async (): Promise<void> => {
    let text = '';
    for await (const piece of body.pipeThrough(new TextDecoderStream())) {
      const blocks = (text + piece).split('\n\n');
      text = blocks.pop() ?? '';
      blocks.forEach(take);
    }
  };
  let failure: Error | null = null;
  read().catch((error: unknown) => {
    if (!stop.signal.aborted) failure = error instanceof Error ? error : new Error(String(error));
  });
  const view: LiveView = {
    updates,
    nodes,
    deployments,
    async until(description, test, timeoutMs = 15_000) {
      await waitFor(
        description,
        () => {
          if (failure) throw new StreamBroken(failure.message);
          if (test(view)) return true;
          throw new Error(JSON.stringify([[...nodes.values()], [...deployments.values()]]));
        },
        timeoutMs,
        50,
        StreamBroken,
      );
    },
    close: () => stop.abort(),
  };
  return view;
}

class StreamBroken extends Error {}
