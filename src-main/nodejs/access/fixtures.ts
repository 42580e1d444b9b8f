import type { SettingsView } from '#shared/api/access.ts';
import type { NodeId } from '#shared/lib/ids.ts';
import { defaultSettings } from '#shared/settings.ts';
import type { SelfPort } from '../self-port.ts';
import { createMachineLogins } from './machine-logins.ts';

/** A machine about which a fixed story is told, for tests of who may hear it. */
export function scriptedSelf(role: 'controller' | 'worker', changes: Partial<SelfPort> = {}): SelfPort {
  const join = {
    phase: 'idle',
    by: null,
    controller: null,
    code: null,
    confirmed: false,
    expiresAt: null,
    error: null,
  } as const;
  const settings: SettingsView = {
    settings: defaultSettings,
    file: '/data/config.json',
    lanAddresses: [],
    lanCertificate: null,
    problems: [],
  };
  const self = () =>
    ({
      role,
      nodeId: 'a'.repeat(64) as NodeId,
      name: 'desk',
      version: '0.1.0',
      apiAddress: 'http://127.0.0.1:7878',
      clusterAddress: null,
      dataDirectory: '/data',
      membership: null,
      join: null,
      lend: null,
      notices: [],
    }) as const satisfies ReturnType<SelfPort['self']>;
  return {
    self,
    startJoin: () => Promise.resolve(join),
    confirmJoin: () => join,
    cancelJoin: () => join,
    leave: () => Promise.resolve(self()),
    discovery: () => Promise.resolve({ enabled: true, interfaces: [], machines: [], problem: null }),
    doctor: () => Promise.resolve({ nodes: [], pairs: [] }),
    settings: () => settings,
    setSettings: () => Promise.resolve(settings),
    lendMeans: () => Promise.resolve({ gpus: null, unavailable: [] }),
    logins: createMachineLogins(Date.now),
    ...changes,
  };
}
