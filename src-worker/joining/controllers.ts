import { defaults } from '#shared/config.ts';
import type { Address } from '#shared/domain/node.ts';
import { CoveyError, type ErrorReason } from '#shared/errors.ts';
import { shortNodeId, type NodeId } from '#shared/lib/ids.ts';
import { announcementMark } from '../../src-main/nodejs/pairing/cluster-secret.ts';
import { equalSecrets } from '../../src-main/nodejs/pairing/equal.ts';

/** What the joiner needs to know of a machine that discovery has found; a hint, whatever it says of itself. */
export interface Announced {
  readonly nodeId: NodeId;
  readonly name: string;
  readonly role: 'controller' | 'worker';
  readonly addresses: readonly Address[];
  readonly nonce: string;
  readonly mark: string | null;
}

/** A controller to ask. */
export interface ControllerTarget {
  /** null: whichever key answers, people compare. */
  readonly nodeId: NodeId | null;
  readonly name: string | null;
  readonly addresses: readonly Address[];
}

/** The controllers among what was found, one entry per key with all its addresses. */
export function controllersOf(peers: readonly Announced[]): ControllerTarget[] {
  const found = new Map<NodeId, ControllerTarget>();
  for (const peer of peers) {
    if (peer.role !== 'controller') continue;
    const known = found.get(peer.nodeId)?.addresses ?? [];
    const more = peer.addresses.filter((one) => !known.some((other) => sameAddress(one, other)));
    found.set(peer.nodeId, {
      nodeId: peer.nodeId,
      name: peer.name,
      addresses: [...known, ...more].slice(0, 16),
    });
  }
  return [...found.values()];
}

/** Those whose announcement carries the secret's mark. */
export function kinOf(peers: readonly Announced[], secret: string): ControllerTarget[] {
  return controllersOf(
    peers.filter(
      ({ role, mark, nonce, nodeId }) =>
        role === 'controller' && mark !== null && equalSecrets(mark, announcementMark(secret, nonce, nodeId)),
    ),
  );
}

/**
 * Which controller a person means: the name or node id (at least 6 digits) of a found one, else an address.
 * Throws `controllers_ambiguous`, or `controller_not_found` for what is neither.
 */
export function findController(text: string, found: readonly ControllerTarget[]): ControllerTarget {
  const wanted = text.trim();
  const byId = /^[0-9a-f]{6,64}$/.test(wanted)
    ? found.filter(({ nodeId }) => nodeId?.startsWith(wanted) === true)
    : [];
  const matching = byId.length > 0 ? byId : found.filter(({ name }) => name === wanted);
  const [only] = matching;
  if (matching.length > 1)
    throw ambiguous(`Several controllers are called "${wanted}".`, matching, 'controller');
  if (only) return only;
  const address = parseAddress(wanted);
  if (address) return { nodeId: null, name: null, addresses: [address] };
  throw new CoveyError(
    'controller_not_found',
    `"${wanted}" is neither the name of a controller that was found nor an address (HOST or HOST:PORT).`,
    { field: 'controller', reasons: found.map(reasonOf) },
  );
}

export function ambiguous(
  sentence: string,
  targets: readonly ControllerTarget[],
  field?: string,
): CoveyError {
  return new CoveyError('controllers_ambiguous', `${sentence} Say which: "covey join ID".`, {
    reasons: targets.slice(0, 64).map(reasonOf),
    ...(field === undefined ? {} : { field }),
  });
}

function reasonOf({ nodeId, name, addresses: [first] }: ControllerTarget): ErrorReason {
  const where = first ? ` at ${addressText(first)}` : '';
  const id = nodeId === null ? '' : `${shortNodeId(nodeId)}  `;
  return {
    code: 'controller',
    message: `${id}${name ?? 'a controller'}${where}`,
    ...(nodeId === null ? {} : { nodeId }),
  };
}

/** `HOST`, `HOST:PORT`, `[V6]:PORT` or a bare IPv6 address; the port is the cluster's by default. */
function parseAddress(text: string): Address | null {
  const match =
    /^\[([0-9a-fA-F:.]+(?:%[\w.-]+)?)\](?::(\d{1,5}))?$/.exec(text) ??
    /^([0-9a-fA-F]*:[0-9a-fA-F:.]*:[0-9a-fA-F:.]*(?:%[\w.-]+)?)()$/.exec(text) ??
    /^([a-zA-Z0-9](?:[a-zA-Z0-9._-]{0,252}))(?::(\d{1,5}))?$/.exec(text);
  const host = match?.[1];
  if (host === undefined) return null;
  const port = match?.[2] ? Number(match[2]) : defaults.clusterPort;
  return port >= 1 && port <= 65_535 ? { host, port } : null;
}

export function sameAddress(a: Address, b: Address): boolean {
  return a.host === b.host && a.port === b.port;
}

function addressText({ host, port }: Address): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
}
