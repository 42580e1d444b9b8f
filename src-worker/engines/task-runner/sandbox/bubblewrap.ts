import { existsSync, readdirSync } from 'node:fs';
import { isAbsolute, join, relative } from 'node:path';

/** What one program may see. Paths on the left are of the machine, `inside` are the program's. */
export interface SandboxView {
  readonly workDirectory: string;
  readonly outputDirectory: string;
  /** Read-only beside them: inputs, the script, secrets. */
  readonly readOnly: readonly { readonly source: string; readonly inside: string }[];
  /** Covey's own directories, which must not show even where something above them does. */
  readonly hidden: readonly string[];
  /** It sees the network of the machine, loopback included. */
  readonly network: boolean;
  /** Of memory, for /tmp and /dev/shm each. */
  readonly temporaryBytes: number;
}

export const insideWork = '/covey/work';
export const insideOutput = '/covey/output';
export const insideSecrets = '/covey/secrets';
export const insideScript = '/covey/script';
export const insideLauncher = '/covey/launch';

/** Programs and libraries of the system. Home directories, /var, /srv and the like are not there at all. */
const systemDirectories = [
  '/usr',
  '/bin',
  '/sbin',
  '/lib',
  '/lib32',
  '/lib64',
  '/libx32',
  '/opt',
  '/nix/store',
];

/** Settings that programs need to find libraries, users, time zones and certificates; nothing with secrets. */
const systemSettings = [
  'alternatives',
  'ld.so.cache',
  'ld.so.conf',
  'ld.so.conf.d',
  'localtime',
  'mime.types',
  'nsswitch.conf',
  'openmpi',
  'protocols',
  'services',
  'ssl/certs',
  'ssl/openssl.cnf',
  'ca-certificates',
  'pki',
  'fonts',
];
const networkSettings = ['resolv.conf', 'hosts', 'gai.conf', 'host.conf'];
/** Where NCCL, UCX and hwloc look for the machine's interfaces and how its parts are connected. */
const networkDevices = ['/sys/devices', '/sys/class/net', '/sys/class/infiniband', '/sys/bus/pci'];

/** Not root inside, whoever runs Covey: some programs refuse to be root. */
const insideUser = '1000';

/**
 * Arguments of bubblewrap up to the program: namespaces of its own for users, processes, network, IPC and host name;
 * no capability, no further user namespaces, no terminal; the system read-only, the task's directory, and nothing else
 * of the machine's files.
 */
export function bubblewrapArguments(view: SandboxView): string[] {
  const args = [
    '--unshare-user',
    '--unshare-all',
    ...(view.network ? ['--share-net'] : []),
    '--disable-userns',
    '--die-with-parent',
    '--new-session',
    ...['--uid', insideUser, '--gid', insideUser, '--cap-drop', 'ALL', '--hostname', 'covey'],
    ...['--proc', '/proc', '--dev', '/dev'],
  ];
  for (const directory of ['/tmp', '/dev/shm']) {
    args.push('--size', String(view.temporaryBytes), '--tmpfs', directory);
  }
  for (const directory of systemDirectories) args.push('--ro-bind-try', directory, directory);
  for (const name of [...systemSettings, ...(view.network ? networkSettings : [])]) {
    args.push('--ro-bind-try', `/etc/${name}`, `/etc/${name}`);
  }
  if (view.network) for (const path of networkDevices) args.push('--ro-bind-try', path, path);
  for (const device of computeDevices()) args.push('--dev-bind-try', device, device);
  for (const directory of view.hidden) {
    if (systemDirectories.some((shown) => contains(shown, directory))) args.push('--tmpfs', directory);
  }
  args.push('--bind', view.workDirectory, insideWork, '--bind', view.outputDirectory, insideOutput);
  for (const { source, inside } of view.readOnly) args.push('--ro-bind', source, inside);
  args.push('--chdir', insideWork, '--');
  return args;
}

/** Of accelerators: a program that trains needs them. Displays, disks and input devices are not there. */
function computeDevices(): string[] {
  const nvidia = namesIn('/dev').filter((name) => /^nvidia(\d+|ctl|-uvm|-uvm-tools)$/.test(name));
  const render = namesIn('/dev/dri').filter((name) => name.startsWith('renderD'));
  return [
    ...nvidia.map((name) => join('/dev', name)),
    ...render.map((name) => join('/dev/dri', name)),
    ...(existsSync('/dev/kfd') ? ['/dev/kfd'] : []),
  ];
}

function namesIn(directory: string): string[] {
  try {
    return readdirSync(directory);
  } catch {
    return [];
  }
}

function contains(directory: string, path: string): boolean {
  const way = relative(directory, path);
  return way === '' || (!way.startsWith('..') && !isAbsolute(way));
}
