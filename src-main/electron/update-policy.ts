/** What is known when an update lies ready. */
export interface UpdateSituation {
  /** The version that was downloaded. */
  readonly version: string;
  readonly role: 'controller' | 'worker';
  /** Engines run here, or models are served from here. */
  readonly busy: boolean;
  /** What the controller of this machine says it runs; null: none, or not heard. */
  readonly controllerVersion: string | null;
}

/**
 * Whether it may be installed now; if not, why. Machines speak only with those of their own protocol, so the
 * controller goes first and its workers follow. Pure.
 */
export function mayInstall({ version, role, busy, controllerVersion }: UpdateSituation): true | string {
  if (busy) return 'It waits until nothing runs on this computer.';
  if (role === 'worker' && controllerVersion !== null && compareVersions(controllerVersion, version) < 0) {
    return 'It waits until the controller has it.';
  }
  return true;
}

/** Negative: `a` is older. Numbers of `MAJOR.MINOR.PATCH`; a pre-release is older than its release. */
export function compareVersions(a: string, b: string): number {
  const [numbersA, preA] = parts(a);
  const [numbersB, preB] = parts(b);
  for (const index of [0, 1, 2]) {
    const difference = (numbersA[index] ?? 0) - (numbersB[index] ?? 0);
    if (difference !== 0) return difference;
  }
  if (preA === preB) return 0;
  if (preA === '') return 1;
  if (preB === '') return -1;
  return preA.localeCompare(preB, 'en', { numeric: true });
}

function parts(version: string): [number[], string] {
  const [release = '', ...pre] = version.replace(/\+.*$/, '').split('-');
  return [release.split('.').map(Number), pre.join('-')];
}
