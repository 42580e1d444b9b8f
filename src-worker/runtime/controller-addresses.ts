import type { Address } from '#shared/domain/node.ts';
import type { Clock } from '#shared/lib/clock.ts';
import type { Logger } from '#shared/lib/logger.ts';
import type { Discovery } from '../../src-main/nodejs/discovery/discovery.ts';
import { maxMembershipAddresses, type MembershipFile } from '../../src-main/nodejs/membership.ts';

/** Where the controller is dialled. Its key is pinned, so a wrong address costs time and nothing else. */
export interface ControllerWays {
  /** Best first, at most 16, never empty. */
  addresses(): readonly Address[];
  /** It answered there with its key and welcomed us. */
  connected(address: Address | null): void;
  /** It said over its session where it can be dialled. */
  announced(addresses: readonly Address[]): void;
  /** Fires when `addresses` has changed. `fresh`: there is one that was not in it before. */
  onChange(listener: (change: { readonly fresh: boolean }) => void): void;
}

export interface ControllerAddresses extends ControllerWays {
  /** When it was found at another address than the time before, epoch ms; null: not since the start. */
  changedAt(): number | null;
  close(): void;
}

/** So that none of the sources can crowd out the others. */
const limits = { announced: 8, discovered: 6 } as const;

/**
 * The addresses of the controller in the order in which they are tried: 1. where it answered last, 2. where it
 * said that it is, 3. where discovery sees its key announced (unproven), 4. where it was when we joined. What is
 * proven is kept in the membership file, so that it survives restarts.
 */
export function createControllerAddresses(options: {
  readonly file: Pick<MembershipFile, 'current' | 'keep'>;
  readonly discovery: Pick<Discovery, 'peers' | 'onChange'> | null;
  readonly logger: Logger;
  readonly clock?: Clock;
}): ControllerAddresses {
  const { file, discovery, logger } = options;
  const membership = file.current;
  const { controllerId } = membership;
  const clock = options.clock ?? { now: Date.now };
  const joined = membership.joinAddresses ?? membership.addresses;
  const listeners: Array<(change: { readonly fresh: boolean }) => void> = [];
  let [good, ...announced] = membership.addresses as [Address, ...Address[]];
  let changedAt: number | null = null;
  let closed = false;

  function proven(): Address[] {
    return unique([good, ...announced.slice(0, limits.announced), ...joined]).slice(
      0,
      maxMembershipAddresses,
    );
  }
  const discovered = (): Address[] => {
    const found = (discovery?.peers() ?? [])
      .filter((peer) => peer.nodeId === controllerId && peer.role === 'controller')
      .map((peer) => peer.addresses);
    return unique(inTurns(found)).slice(0, limits.discovered);
  };
  const list = (): Address[] =>
    unique([good, ...announced.slice(0, limits.announced), ...discovered(), ...joined]).slice(
      0,
      maxMembershipAddresses,
    );
  let current = list();

  const refresh = (): void => {
    if (closed) return;
    const before = current;
    current = list();
    if (text(before) === text(current)) return;
    const known = new Set(before.map(key));
    const fresh = current.some((address) => !known.has(key(address)));
    for (const listener of listeners) listener({ fresh });
  };
  const persist = (): void => {
    const addresses = proven();
    if (closed || text(addresses) === text(file.current.addresses)) return;
    file.keep({ addresses, joinAddresses: joined });
  };
  const stopListening = discovery?.onChange(refresh);

  return {
    addresses: () => current,
    connected(address) {
      if (address && key(address) !== key(good)) {
        logger.info('the controller has another address', {
          before: key(good),
          now: key(address),
        });
        good = address;
        changedAt = clock.now();
      }
      persist();
      refresh();
    },
    announced(addresses) {
      if (addresses.length === 0) return;
      announced = [...addresses];
      persist();
      refresh();
    },
    onChange: (listener) => void listeners.push(listener),
    changedAt: () => changedAt,
    close() {
      closed = true;
      stopListening?.();
    },
  };
}

function key({ host, port }: Address): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
}

function text(addresses: readonly Address[]): string {
  return addresses.map(key).join(' ');
}

function unique(addresses: readonly Address[]): Address[] {
  const seen = new Set<string>();
  return addresses.filter((address) => !seen.has(key(address)) && seen.add(key(address)));
}

/** The first of each, then the second of each: one that claims much does not stand before the others. */
function inTurns<T>(lists: readonly (readonly T[])[]): T[] {
  const longest = Math.max(0, ...lists.map((one) => one.length));
  return Array.from({ length: longest }, (_, index) =>
    lists.flatMap((one) => one.slice(index, index + 1)),
  ).flat();
}
