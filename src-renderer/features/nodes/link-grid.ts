import type { PairCheck } from '#shared/api/self.ts';
import type { NodeId } from '#shared/lib/ids.ts';

export interface LinkGrid {
  readonly nodes: readonly { readonly id: NodeId; readonly name: string }[];
  /** By row (from) and column (to); null: never measured, or the machine itself. */
  readonly cells: readonly (readonly (PairCheck | null)[])[];
}

/** The measured links as a table of pairs, machines by name. */
export function linkGrid(
  links: readonly PairCheck[],
  nodes: readonly { readonly id: NodeId; readonly name: string }[],
): LinkGrid {
  const known = new Map(nodes.map((node) => [node.id, node.name]));
  for (const link of links) {
    if (!known.has(link.from)) known.set(link.from, link.fromName);
    if (!known.has(link.to)) known.set(link.to, link.toName);
  }
  const sorted = [...known]
    .map(([id, name]) => ({ id, name }))
    .sort((a, b) => a.name.localeCompare(b.name) || a.id.localeCompare(b.id));
  const byPair = new Map(links.map((link) => [`${link.from} ${link.to}`, link]));
  return {
    nodes: sorted,
    cells: sorted.map((from) =>
      sorted.map((to) => (from.id === to.id ? null : (byPair.get(`${from.id} ${to.id}`) ?? null))),
    ),
  };
}

/**
 * How good a link is for a model split over it, per token: every token crosses it twice, so the round trip counts
 * first; through the controller both machines pay twice.
 */
export function quality(link: PairCheck): 'good' | 'fair' | 'poor' | 'none' {
  if (link.error !== null || link.path === null) return 'none';
  if (link.rttMs === null) return 'fair';
  if (link.rttMs > 20) return 'poor';
  return link.rttMs > 3 || link.path === 'relay' ? 'fair' : 'good';
}

/** What is not good about a link: a word for its mark, and why it counts. null: nothing, or there is no link. */
export function weakness(link: PairCheck): { readonly word: string; readonly why: string } | null {
  const grade = quality(link);
  if (grade === 'none' || grade === 'good') return null;
  if (link.rttMs === null) {
    return { word: 'speed unknown', why: 'Its round trip could not be measured.' };
  }
  if (link.rttMs > 3) {
    return {
      word: grade === 'poor' ? 'slow' : 'fairly slow',
      why: 'Each token of a model that is split over it crosses it twice: a round trip of up to 3 ms is good, more than 20 ms is slow. A cable helps.',
    };
  }
  return {
    word: '',
    why: 'It goes through the controller, which then has to carry all of it. Open the port of one of the two machines in its firewall.',
  };
}
