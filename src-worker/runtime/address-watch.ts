import { networkInterfaces } from 'node:os';

type Interfaces = ReturnType<typeof networkInterfaces>;

/** Another network, a cable, a new lease: no system event tells it everywhere, so it is looked up this often. */
const everyMs = 2_000;

/**
 * Watches which addresses this machine has.
 * @param onChange gets those that it had a moment ago and has no more; empty when some were only added
 * @returns what ends it
 */
export function watchOwnAddresses(
  onChange: (lost: ReadonlySet<string>) => void,
  read: () => Interfaces = networkInterfaces,
): () => void {
  let before = addressesOf(read);
  const timer = setInterval(() => {
    const now = addressesOf(read) ?? before;
    const past = before ?? now;
    before = now;
    const lost = new Set([...(past ?? [])].filter((address) => !now?.has(address)));
    if (lost.size > 0 || past?.size !== now?.size) onChange(lost);
  }, everyMs);
  return () => clearInterval(timer);
}

/** Without those that no session uses, which come and go with every container. null: the system does not tell. */
function addressesOf(read: () => Interfaces): ReadonlySet<string> | null {
  try {
    const all = Object.values(read()).flatMap((entries) => (entries ?? []).map(({ address }) => address));
    return new Set(all.filter((address) => !/^fe80:/i.test(address)));
  } catch {
    return null;
  }
}
