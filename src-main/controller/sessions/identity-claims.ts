import { CoveyError } from '#shared/errors.ts';
import type { HelloFrame } from '#shared/protocol/session.ts';
import type { PeerSession } from '../../nodejs/transport/transport.ts';
import type { NodeFacts } from '../state/state.ts';

/** A running program that shows a node's key, by what people know it by. */
export interface Claim {
  readonly bootId: HelloFrame['bootId'];
  /** What it calls itself. */
  readonly name: string;
  readonly host: string;
  readonly address: string;
  readonly machine: string | null;
}

export function claimOf(session: PeerSession, hello: HelloFrame): Claim {
  return {
    bootId: hello.bootId,
    name: hello.name,
    host: hello.hardware.os.hostname,
    address: session.remoteAddress,
    machine: hello.machine,
  };
}

/** The same two for as long as they keep their places, however often they start again. */
export function pairKey(one: Claim, other: Claim): string {
  return [one, other]
    .map(({ name, host, address, machine }) => JSON.stringify([name, host, address, machine]))
    .sort()
    .join();
}

const repair =
  'A data directory or a disk was probably copied. On the copy, stop Covey, run "covey identity new" and join again.';

export function identityInUse(one: Claim, other: Claim): CoveyError {
  return new CoveyError(
    'identity_in_use',
    `Two machines use one identity: ${describe(one)} and ${describe(other)}. ${repair}`,
  );
}

/**
 * The node's key now runs on another installation of the system than the last time: moved on purpose (a restored
 * backup, another disk), or a copy that runs in turn with its original. null: it does not, or nobody can tell.
 */
export function identityMoved(before: NodeFacts | null, now: Claim): CoveyError | null {
  if (!before?.machine || !now.machine || before.machine === now.machine) return null;
  const last = before.hardware.os.hostname;
  return new CoveyError(
    'identity_in_use',
    `${describe(now)} uses the identity that was last used on another computer (host ${last || 'unknown'}). ` +
      'If both are to run, stop Covey on one of them, run "covey identity new" there and join again.',
  );
}

function describe({ name, host, address }: Claim): string {
  return `${name} (host ${host || 'unknown'}, ${address})`;
}
