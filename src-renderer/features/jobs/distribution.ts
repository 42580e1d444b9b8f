import type { Distribution } from '#shared/domain/job-spec.ts';
import type { ShareView } from '#shared/domain/job.ts';
import { shareOut } from '../models/layer-split.ts';

/** Shares by hand while they are edited: whole percents that add up, in the order of the strip. */
export interface HandShares {
  readonly nodes: readonly string[];
  readonly percents: readonly number[];
}

/** A strip of so many parts: with them it shares percents out. */
export const wholePercent = 100;

function sharedOut(nodes: readonly string[], weights: readonly number[]): HandShares {
  // Everyone has something: a machine that is to get nothing is left out.
  const mins = nodes.map(() => (nodes.length <= wholePercent ? 1 : 0));
  return { nodes, percents: shareOut(wholePercent, weights, mins) };
}

/** As they are set, else as the job would share out now: machines that can work, by speed where it is known. */
export function currentShares(shares: readonly ShareView[], isManual: boolean): HandShares {
  const taking = shares
    .filter(({ targetPercent, whyNot }) => (isManual ? targetPercent !== null : whyNot === null))
    .sort((a, b) => a.nodeName.localeCompare(b.nodeName));
  return sharedOut(
    taking.map(({ nodeId }) => nodeId),
    taking.map(({ targetPercent }) => targetPercent ?? 0),
  );
}

export function evenShares(nodes: readonly string[]): HandShares {
  return sharedOut(nodes, []);
}

/** Who comes in gets an even share, the others keep theirs to one another. The last one stays. */
export function toggleShare({ nodes, percents }: HandShares, node: string): HandShares {
  if (nodes.includes(node)) {
    if (nodes.length === 1) return { nodes, percents };
    const kept = nodes.flatMap((id, index) => (id === node ? [] : [{ id, percent: percents[index] ?? 0 }]));
    return sharedOut(
      kept.map(({ id }) => id),
      kept.map(({ percent }) => percent),
    );
  }
  const even = nodes.length === 0 ? 1 : wholePercent / nodes.length;
  return sharedOut([...nodes, node], [...percents, even]);
}

/** What is sent: machines with nothing are not named. */
export function toDistribution({ nodes, percents }: HandShares): Distribution {
  const shares = nodes.flatMap((node, index) => {
    const percent = percents[index] ?? 0;
    return percent > 0 ? [{ node, percent }] : [];
  });
  return { mode: 'manual', shares };
}

export function isSame(a: HandShares, b: HandShares): boolean {
  const text = ({ nodes, percents }: HandShares): string =>
    nodes
      .flatMap((node, index) => (percents[index] ? [`${node} ${percents[index]}`] : []))
      .sort()
      .join();
  return text(a) === text(b);
}

/** Of a distribution as it is written: weights of any size. */
export function fromDistribution(
  shares: readonly { readonly node: string; readonly percent: number }[],
): HandShares {
  return sharedOut(
    shares.map(({ node }) => node),
    shares.map(({ percent }) => percent),
  );
}
