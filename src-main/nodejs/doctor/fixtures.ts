import type { ErrorBody } from '#shared/errors.ts';
import { defaultSettings } from '#shared/settings.ts';
import type { CommandOutcome } from '../run-command.ts';
import type { DoctorContext, RunningNode } from './context.ts';
import type { InterfaceAddress } from './multicast-probe.ts';
import type { DoctorSystem, FileFacts } from './system.ts';

/** A machine on which all is well, and what changes it, for tests of the checks. */
export const at = Date.UTC(2026, 10, 30, 12, 0, 0);
export const dataDirectory = '/data/covey';

export const ethernet: InterfaceAddress = {
  name: 'eth0',
  address: '192.0.2.10',
  family: 'IPv4',
  netmask: '255.255.255.0',
};

export interface Machine {
  /** Output of commands by their words; others are not installed. */
  readonly commands?: Readonly<Record<string, string | { readonly code: number; readonly stdout: string }>>;
  /** Text files by path. */
  readonly texts?: Readonly<Record<string, string>>;
  readonly lists?: Readonly<Record<string, readonly string[]>>;
  readonly files?: Readonly<Record<string, Partial<FileFacts>>>;
  readonly names?: Readonly<Record<string, readonly string[]>>;
}

export function fakeSystem(machine: Machine = {}, changes: Partial<DoctorSystem> = {}): DoctorSystem {
  const files: Record<string, Partial<FileFacts>> = {
    [dataDirectory]: { kind: 'directory', mode: 0o700 },
    [`${dataDirectory}/identity/key.pem`]: {},
    [`${dataDirectory}/identity/cert.pem`]: {},
    ...machine.files,
  };
  const names: Record<string, readonly string[]> = {
    localhost: ['127.0.0.1', '::1'],
    desk: ['192.0.2.10'],
    ...machine.names,
  };
  const textOf = (path: string): string | null => machine.texts?.[path] ?? null;
  return {
    platform: 'linux',
    uid: 1000,
    pid: 4000,
    nodeVersion: '24.1.0',
    now: () => at,
    hostname: () => 'desk',
    addresses: () => [ethernet],
    async run(file, args): Promise<CommandOutcome> {
      const answer = machine.commands?.[[file, ...args].join(' ')] ?? machine.commands?.[file];
      if (answer === undefined) return { ok: false, reason: `there is no "${file}" here` };
      if (typeof answer === 'string') return { ok: true, code: 0, stdout: answer, stderr: '' };
      return { ok: true, ...answer, stderr: '' };
    },
    readText: async (path) => textOf(path),
    list: async (path) => [...(machine.lists?.[path] ?? [])],
    async look(path) {
      const found = files[path];
      return found ? { path, kind: 'file', mode: 0o600, uid: 1000, modifiedAt: at - 1_000, ...found } : null;
    },
    space: async () => ({ freeBytes: 100 * 1024 ** 3, freeFiles: 1_000_000 }),
    tryWriting: async () => null,
    async resolve(name) {
      const found = names[name];
      if (!found) throw Object.assign(new Error(`getaddrinfo ENOTFOUND ${name}`), { code: 'ENOTFOUND' });
      return [...found];
    },
    dial: async () => 'ECONNREFUSED',
    ports: async (questions) => questions.map(() => ({ known: true, users: [] })),
    parentOf: async () => 1,
    multicast: async (addresses) => ({
      bindProblem: null,
      interfaces: addresses.map(({ name, address }) => ({
        name,
        address,
        virtual: false,
        problem: null,
        heardSelf: true,
        heardOthers: 2,
      })),
    }),
    ...changes,
  };
}

export function runningNode(changes: Partial<RunningNode> = {}): RunningNode {
  return {
    role: 'worker',
    lends: true,
    apiAddress: 'http://127.0.0.1:7878',
    clusterAddress: { host: '0.0.0.0', port: 7879 },
    hardware: null,
    compute: null,
    discovery: { interfaces: [], peers: 1 },
    controller: {
      name: 'hall',
      connected: true,
      addresses: [{ host: '192.0.2.1', port: 7879 }],
      trouble: null,
      clockAheadMs: 40,
      addressChangedAt: null,
    },
    notices: [],
    lan: null,
    ...changes,
  };
}

export function exampleContext(changes: Partial<DoctorContext> = {}): DoctorContext {
  return {
    dataDirectory,
    version: '0.1.0',
    settings: defaultSettings,
    settingsProblem: null,
    engine: { buildId: 'v0.4.0-test' },
    node: runningNode(),
    ...changes,
  };
}

export const unreachable: ErrorBody = {
  code: 'controller_unreachable',
  message: 'No address answers. Is it on?',
};
