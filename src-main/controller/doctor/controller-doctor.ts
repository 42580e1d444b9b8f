import { setTimeout as delay } from 'node:timers/promises';
import type { DoctorReport, PairCheck } from '#shared/api/self.ts';
import type { DoctorCheck } from '#shared/domain/doctor.ts';
import { CoveyError, type ErrorBody } from '#shared/errors.ts';
import type { Clock } from '#shared/lib/clock.ts';
import type { NodeId } from '#shared/lib/ids.ts';
import { clause, finishCheck, listing, type Finding } from '../../nodejs/doctor/check.ts';
import type { DoctorContext } from '../../nodejs/doctor/context.ts';
import { runDoctor } from '../../nodejs/doctor/doctor.ts';
import type { DoctorSystem } from '../../nodejs/doctor/system.ts';
import type { Transport } from '../../nodejs/transport/transport.ts';
import type { Runtime } from '../runtime/runtime.ts';
import type { SessionRegistry } from '../sessions/session-registry.ts';
import type { NodeRecord } from '../state/state.ts';
import { connectedNodes, type Links } from './links.ts';
import {
  absentCheck,
  engineBuildsCheck,
  inboundCheck,
  ownInboundCheck,
  versionsCheck,
  withCheck,
  withClock,
} from './node-checks.ts';
import { measureInTurns, pairsToMeasure } from './pairs.ts';

export interface ControllerDoctorOptions {
  readonly self: { readonly nodeId: NodeId; readonly name: string; readonly version: string };
  readonly runtime: Pick<Runtime, 'state'>;
  readonly sessions: Pick<SessionRegistry, 'request'>;
  readonly transport: Pick<Transport, 'identify'>;
  readonly links: Pick<Links, 'measure' | 'latest'>;
  /** What the controller knows of its own machine now. */
  readonly context: () => Promise<DoctorContext>;
  readonly clock: Clock;
  /** Default: this machine. */
  readonly system?: DoctorSystem;
}

const runMs = 10_000;
const identifyMs = 3_000;
const nodesAtOnce = 16;
/** Asking the nodes and measuring the pairs each end after this, whatever is left. */
const nodesBudgetMs = 45_000;
const pairsBudgetMs = 90_000;
const pairsAtOnce = 4;
const pairBytes = 8 * 1024 * 1024;
/** Lists of members go out in rounds: for so long a machine that has just joined is a stranger to the others. */
const strangerMs = 2_000;

interface NodeReport {
  readonly nodeId: NodeId;
  readonly name: string;
  readonly checks: DoctorCheck[];
  readonly error: ErrorBody | null;
}

/**
 * The whole covey: 1. this machine's own checks, 2. each connected worker's, with what the controller itself sees of
 * it, 3. the way between each two of them, both directions. Never rejects except when the signal aborts.
 */
export function createControllerDoctor(
  options: ControllerDoctorOptions,
): (signal: AbortSignal) => Promise<DoctorReport> {
  const { self, runtime, sessions, transport, clock } = options;
  let running: Promise<DoctorReport> | null = null;

  const examine = async (node: NodeRecord, signal: AbortSignal): Promise<NodeReport> => {
    const { id, name, facts } = node.durable;
    if (node.live.session === null) {
      const error: ErrorBody = { code: 'node_not_ready', message: `${name} is not connected.` };
      return { nodeId: id, name, checks: [absentCheck(runtime.state, node, clock.now())], error };
    }
    if (signal.aborted) {
      const error: ErrorBody = { code: 'timeout', message: `There was no time left to ask ${name}.` };
      return { nodeId: id, name, checks: [unanswered(name, error)], error };
    }
    const [answer, attempts] = await Promise.all([
      sessions
        .request(id, 'doctor.run', {}, { deadlineMs: runMs, signal })
        .then(({ checks, at }) => ({ checks: withClock(checks, at - clock.now()), error: null }))
        .catch((thrown: unknown) => ({ checks: [], error: CoveyError.from(thrown).toBody() })),
      transport.identify((facts?.addresses ?? []).slice(0, 16), identifyMs),
    ]);
    let checks = withCheck(answer.checks, inboundCheck(node, attempts));
    if (answer.error) checks = [unanswered(name, answer.error), ...checks];
    return { nodeId: id, name, checks, error: answer.error };
  };

  const examineAll = async (nodes: readonly NodeRecord[], signal: AbortSignal): Promise<NodeReport[]> => {
    const within = AbortSignal.any([signal, AbortSignal.timeout(nodesBudgetMs)]);
    const reports: NodeReport[] = [];
    const waiting = nodes.entries();
    const work = async (): Promise<void> => {
      for (const [index, node] of waiting) reports[index] = await examine(node, within);
    };
    await Promise.all(Array.from({ length: nodesAtOnce }, work));
    return reports;
  };

  const measurePairs = async (
    signal: AbortSignal,
  ): Promise<{ readonly pairs: PairCheck[]; readonly check: DoctorCheck }> => {
    const connected = connectedNodes(runtime.state);
    const ids = connected.map(({ durable }) => durable.id);
    const youngestAt = Math.max(...connected.map(({ durable }) => durable.joinedAt));
    const waitMs = Math.min(strangerMs, youngestAt + strangerMs - clock.now());
    if (ids.length > 1 && waitMs > 0) await delay(waitMs, undefined, { signal });
    const { pairs, sampled } = pairsToMeasure(ids);
    const within = AbortSignal.any([signal, AbortSignal.timeout(pairsBudgetMs)]);
    const found = new Map<string, PairCheck>();
    await measureInTurns(
      pairs,
      async (pair) => {
        const check = await options.links.measure(pair, pairBytes, within);
        if (!within.aborted) found.set(pair.join(), check);
      },
      { atOnce: pairsAtOnce, signal: within },
    );
    const checks = pairs.flatMap((pair) => found.get(pair.join()) ?? options.links.latest(...pair) ?? []);
    const left = pairs.length - found.size;
    return {
      pairs: checks,
      check: finishCheck('pairs', 'Pairs', judgePairs(checks, { total: ids.length, sampled, left })),
    };
  };

  const run = async (signal: AbortSignal): Promise<DoctorReport> => {
    const nodes = [...runtime.state.nodes.values()];
    const others = nodes.filter(({ durable }) => durable.id !== self.nodeId);
    const [own, reports] = await Promise.all([
      options.context().then((context) => runDoctor(context, options.system)),
      examineAll(others, signal),
    ]);
    signal.throwIfAborted();
    const { pairs, check } = await measurePairs(signal);
    signal.throwIfAborted();
    const ownChecks = [versionsCheck(self.version, nodes), engineBuildsCheck(nodes), check];
    const checks = [...withCheck(own, ownInboundCheck(self.nodeId, nodes)), ...ownChecks];
    return { nodes: [{ nodeId: self.nodeId, name: self.name, checks, error: null }, ...reports], pairs };
  };

  return async (signal) => {
    // Two doctors at once would measure each other: who asks meanwhile gets the report that is being made.
    while (running) {
      const report = await running.catch(() => null);
      if (report) return report;
    }
    running = run(signal);
    try {
      return await running;
    } finally {
      running = null;
    }
  };
}

function unanswered(name: string, error: ErrorBody): DoctorCheck {
  return finishCheck('connection', 'Connection', {
    status: 'fail',
    summary: `${name} did not run its checks: ${clause(error.message)}`,
    action: `Run "covey doctor" on ${name} itself`,
  });
}

function judgePairs(
  pairs: readonly PairCheck[],
  { total, sampled, left }: { readonly total: number; readonly sampled: boolean; readonly left: number },
): Finding {
  if (total < 2)
    return { status: 'skipped', summary: 'There are no two connected machines to measure between' };
  const text = ({ fromName, toName }: PairCheck): string => `${fromName} to ${toName}`;
  const broken = pairs.filter(({ error }) => error !== null);
  const rest = [
    ...(sampled ? [`of ${total} machines each was measured with four others`] : []),
    ...(left > 0 ? [`${left} were not measured for lack of time`] : []),
  ].map((part) => `, ${part}`);
  if (broken[0]) {
    return {
      status: 'fail',
      summary: `There is no way for ${listing(broken.map(text))}: ${clause(broken[0].error?.message ?? '')}${rest.join('')}`,
      action:
        'Run "covey doctor" on both machines, and see that both are in networks that lead to each other',
    };
  }
  const relayed = pairs.filter(({ path }) => path === 'relay');
  if (relayed.length > 0) {
    return {
      status: 'warn',
      summary: `Everything between ${listing(relayed.map(text))} goes through this controller${rest.join('')}`,
      action: 'Open the cluster port on one machine of each pair, as the check "Inbound" says',
    };
  }
  const reverse = pairs.filter(({ path }) => path === 'reverse').length;
  const how = reverse === 0 ? 'all of them directly' : `${reverse} of them by reverse connections`;
  return {
    status: left > 0 ? 'warn' : 'ok',
    summary: `${pairs.length} ways between machines work, ${how}${rest.join('')}`,
    ...(left > 0 ? { action: 'Run it again later: "covey links" shows what was measured' } : {}),
  };
}
