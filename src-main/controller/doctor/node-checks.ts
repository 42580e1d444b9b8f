import type { DoctorCheck } from '#shared/domain/doctor.ts';
import type { AddressAttempt } from '#shared/domain/network.ts';
import type { NodeId } from '#shared/lib/ids.ts';
import { clause, finishCheck, listing, type Finding } from '../../nodejs/doctor/check.ts';
import { skewFinding, skewWarnMs, spanText } from '../../nodejs/doctor/checks/clock.ts';
import { addressText, openPortText } from '../../nodejs/doctor/checks/reach.ts';
import { nodeStatus } from '../state/selectors.ts';
import type { ControllerState, NodeRecord } from '../state/state.ts';

/** `check` in the place of the one with the same id, or at the end. */
export function withCheck(checks: readonly DoctorCheck[], check: DoctorCheck): DoctorCheck[] {
  const at = checks.findIndex(({ id }) => id === check.id);
  return at === -1 ? [...checks, check] : checks.with(at, check);
}

/**
 * What the controller sees of a worker's clock, over what the worker says itself: two clocks that drift apart while
 * the session lasts show here only.
 * @param aheadMs the worker's clock minus ours, as its answer arrived
 */
export function withClock(checks: readonly DoctorCheck[], aheadMs: number): DoctorCheck[] {
  const own = checks.find(({ id }) => id === 'clock');
  if (Math.abs(aheadMs) <= skewWarnMs) {
    // Set right since the session began, which is when the worker compared.
    const isStale = own !== undefined && own.status !== 'ok' && /the controller's/.test(own.summary);
    return isStale ? withCheck(checks, finishCheck('clock', 'Clock', skewFinding(aheadMs))) : [...checks];
  }
  const seen = finishCheck('clock', 'Clock', {
    ...skewFinding(aheadMs),
    ...(own?.action ? { action: own.action } : {}),
  });
  return own?.status === 'fail' && seen.status !== 'fail' ? [...checks] : withCheck(checks, seen);
}

/** A machine that has no session, so that nothing can be asked of it. */
export function absentCheck(state: ControllerState, node: NodeRecord, now: number): DoctorCheck {
  const { durable, live } = node;
  const sinceAt = durable.lastContactAt ?? live.heardAt;
  const status = nodeStatus(state, node);
  const finding: Finding =
    durable.bootId === null
      ? {
          status: 'warn',
          summary: `${durable.name} has joined and never connected`,
          action: `Start "covey worker" on ${durable.name}, or remove it with "covey remove ${durable.name}"`,
        }
      : status === 'offline'
        ? {
            status: 'skipped',
            summary: `${durable.name} was switched off or stopped lending ${spanText(Math.max(0, now - sinceAt))} ago`,
          }
        : {
            status: 'fail',
            summary: `${durable.name} has not answered for ${spanText(Math.max(0, now - Math.max(sinceAt, live.heardAt)))}`,
            action: `Run "covey doctor" on ${durable.name}: it tells whether it reaches this controller`,
          };
  return finishCheck('connection', 'Connection', finding);
}

/** Whether this controller reaches a worker's cluster port, from the keys that answered at its addresses. */
export function inboundCheck(node: NodeRecord, attempts: readonly AddressAttempt[]): DoctorCheck {
  return finishCheck('inbound', 'Inbound', judgeInbound(node, attempts));
}

function judgeInbound({ durable }: NodeRecord, attempts: readonly AddressAttempt[]): Finding {
  const { id, name, facts } = durable;
  const [first] = attempts;
  if (!first) {
    return {
      status: 'warn',
      summary: `${name} opens no port for others: it is reached only by connections that it opens itself`,
      action: `Start it with --cluster 0.0.0.0:7879 to be reached directly`,
    };
  }
  const text = ({ address }: AddressAttempt): string => addressText(address);
  const reached = attempts.filter(({ nodeId }) => nodeId === id);
  const strangers = attempts.filter(({ nodeId }) => nodeId !== null && nodeId !== id);
  if (reached.length > 0) {
    const ms = reached[0]?.connectMs ?? null;
    const time = ms === null ? '' : ` in ${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`;
    return { status: 'ok', summary: `The controller reaches it at ${listing(reached.map(text))}${time}` };
  }
  if (strangers[0]) {
    return {
      status: 'fail',
      summary: `At ${text(strangers[0])} another machine answers, with key ${strangers[0].nodeId?.slice(0, 12)} instead of ${id.slice(0, 12)}`,
      action: 'See that no two machines have the same address, and that no program stands between them',
    };
  }
  const { port } = first.address;
  const why = first.problem === null ? '' : ` (${text(first)} ${clause(first.problem)})`;
  return {
    status: 'warn',
    summary: `Others cannot dial ${name} on ${port}${why}: outbound only, it works through reverse connections`,
    action: `Open the port in the firewall of ${name}: ${openPortText(facts?.hardware.os.platform ?? '', port)}`,
  };
}

/** Whether all machines run one version of the program. */
export function versionsCheck(own: string, nodes: readonly NodeRecord[]): DoctorCheck {
  const other = nodes.filter(({ durable }) => durable.facts && durable.facts.version !== own);
  const finding: Finding =
    other.length === 0
      ? { status: 'ok', summary: `All machines run Covey ${own}` }
      : {
          status: 'warn',
          summary: `This controller runs Covey ${own}, and ${listing(other.map(({ durable }) => `${durable.name} runs ${durable.facts?.version}`))}`,
          action: 'Install the same version on all of them, the controller first',
        };
  return finishCheck('versions', 'Versions', finding);
}

/** Machines share a model only when their engines are of one build. */
export function engineBuildsCheck(nodes: readonly NodeRecord[]): DoctorCheck {
  const builds = new Map<string, string[]>();
  const without: string[] = [];
  for (const { durable } of nodes) {
    const build = durable.facts?.engineBuildId;
    if (build == null) {
      if (durable.facts) without.push(durable.name);
    } else builds.set(build, [...(builds.get(build) ?? []), durable.name]);
  }
  const [most, ...others] = [...builds].sort((a, b) => b[1].length - a[1].length);
  const finding = ((): Finding => {
    if (others.length > 0) {
      return {
        status: 'fail',
        summary: `Engines are of different builds, which cannot share a model: ${[most, ...others].map((one) => `${one?.[0]} on ${listing(one?.[1] ?? [])}`).join('; ')}`,
        action: `Install the build ${most?.[0]} on ${listing(others.flatMap(([, names]) => names))}`,
      };
    }
    if (without.length > 0) {
      return {
        status: 'warn',
        summary: `There is no usable engine on ${listing(without)}`,
        action: 'Run "npm run build:engine" in a checkout there, or install Covey again',
      };
    }
    if (most === undefined) return { status: 'skipped', summary: 'No machine has told which engine it has' };
    return { status: 'ok', summary: `All engines are of build ${most[0]}` };
  })();
  return finishCheck('engine-builds', 'Engine builds', finding);
}

/** The controller's own way in: workers dial it. */
export function ownInboundCheck(selfId: NodeId, nodes: readonly NodeRecord[]): DoctorCheck {
  const others = nodes.filter(({ durable }) => durable.id !== selfId);
  const connected = others.filter(({ live }) => live.session !== null);
  const finding: Finding =
    connected.length > 0
      ? {
          status: 'ok',
          summary: `Other machines reach this controller: ${listing(connected.map(({ durable }) => durable.name))}`,
        }
      : {
          status: 'skipped',
          summary: 'No other machine is connected, so whether they reach this controller is not known',
        };
  return finishCheck('inbound', 'Inbound', finding);
}
