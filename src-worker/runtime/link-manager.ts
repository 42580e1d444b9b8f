import { timings } from '#shared/config.ts';
import type { StageTarget } from '#shared/domain/engine.ts';
import { CoveyError } from '#shared/errors.ts';
import type { EngineId } from '#shared/lib/ids.ts';
import type { Link, Transport } from '../../src-main/nodejs/transport/transport.ts';
import type { AgentEvent } from '../agent/events.ts';

export interface LinkManager {
  /** Opens a leader's links to all its stages; the outcome comes as one event. */
  open(engineId: EngineId, stages: readonly StageTarget[]): void;
  /** Closes them, those that are still being opened included. Nothing is heard of them afterwards. */
  close(engineId: EngineId): void;
  closeAll(): void;
}

interface LeaderLinks {
  closed: boolean;
  links: readonly Link[];
}

const observeEveryMs = 1_000;

/** Executes the agent's wishes about links and tells it what becomes of them, counters once a second. */
export function createLinkManager(
  transport: Pick<Transport, 'openLink'>,
  onEvent: (event: AgentEvent) => void,
): LinkManager {
  const leaders = new Map<EngineId, LeaderLinks>();
  let timer: NodeJS.Timeout | null = null;

  const observe = (): void => {
    for (const [engineId, { links }] of leaders) {
      if (links.length === 0) continue;
      onEvent({ type: 'links_observed', engineId, links: links.map((link) => link.observe()) });
    }
  };
  const watch = (): void => {
    if (leaders.size > 0) timer ??= setInterval(observe, observeEveryMs);
    else if (timer) {
      clearInterval(timer);
      timer = null;
    }
  };

  const openAll = async (
    engineId: EngineId,
    entry: LeaderLinks,
    stages: readonly StageTarget[],
  ): Promise<void> => {
    const outcomes = await Promise.allSettled(
      stages.map((stage) =>
        transport.openLink({
          engineId,
          stageEngineId: stage.engineId,
          peer: stage.nodeId,
          peerName: stage.nodeName,
          addresses: stage.addresses,
          grant: stage.grant,
          connectTimeoutMs: timings.connectMs,
        }),
      ),
    );
    const links = outcomes.flatMap((outcome) => (outcome.status === 'fulfilled' ? [outcome.value] : []));
    const failure = outcomes.find((outcome) => outcome.status === 'rejected');
    if (entry.closed || failure) {
      for (const link of links) link.close();
      if (!entry.closed && failure) {
        onEvent({ type: 'links_failed', engineId, error: CoveyError.from(failure.reason).toBody() });
      }
      return;
    }
    entry.links = links;
    onEvent({ type: 'links_opened', engineId, ports: links.map((link) => link.port) });
    for (const link of links) {
      link.onLost((reason) => {
        if (entry.closed) return;
        onEvent({ type: 'link_lost', engineId, stageEngineId: link.stageEngineId, error: reason.toBody() });
      });
    }
  };

  const close = (engineId: EngineId): void => {
    const entry = leaders.get(engineId);
    if (!entry) return;
    entry.closed = true;
    for (const link of entry.links) link.close();
    leaders.delete(engineId);
    watch();
  };

  return {
    open(engineId, stages) {
      const entry: LeaderLinks = { closed: false, links: [] };
      leaders.set(engineId, entry);
      watch();
      void openAll(engineId, entry, stages);
    },
    close,
    closeAll() {
      for (const engineId of [...leaders.keys()]) close(engineId);
    },
  };
}
