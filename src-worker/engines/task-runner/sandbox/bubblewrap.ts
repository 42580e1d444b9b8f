import { existsSync, readdirSync, statSync } from 'node:fs';
import { isAbsolute, join, relative } from 'node:path';
import { CoveyError } from '#shared/errors.ts';
import { networkDeviceOptions } from './network-devices.ts';

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
  /** All that it has. */
  readonly environment: Readonly<Record<string, string>>;
}

/** How a program is started in its sandbox. */
export interface SandboxedStart {
  /** bubblewrap and the program; what is between them comes by a file descriptor. */
  readonly argv: readonly string[];
  /** What is to be read from `optionsFd`. */
  readonly options: string;
}

/** The first after the streams. */
export const optionsFd = 3;

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
  // Not all of `pki`: it has private keys beside them, which root could read.
  'pki/ca-trust',
  'pki/tls/certs',
  'pki/tls/cert.pem',
  'pki/tls/openssl.cnf',
  'fonts',
];
const networkSettings = ['resolv.conf', 'hosts', 'gai.conf', 'host.conf'];
/** Of /proc, what tells of the whole machine and is closed to all but root: the account that runs Covey may be root. */
const hiddenKnowledge = [
  'acpi',
  'asound',
  'scsi',
  'kcore',
  'keys',
  'key-users',
  'kpagecgroup',
  'kpagecount',
  'kpageflags',
  'latency_stats',
  'pagetypeinfo',
  'sched_debug',
  'slabinfo',
  'timer_list',
  'vmallocinfo',
];

/** Not root inside, whoever runs Covey: some programs refuse to be root. */
const insideUser = '1000';

/**
 * Starts a command in bubblewrap: namespaces of its own for users, processes, network, IPC and host name; no capability,
 * no further user namespaces, no terminal; the system read-only, the task's directory, and nothing else of the
 * machine's files.
 *
 * The environment goes to bubblewrap as options, by a descriptor like all of them, and is set for the program alone:
 * the launcher and bubblewrap run outside, and a variable such as LD_PRELOAD would run code in them.
 * @throws CoveyError `job_invalid` for text that cannot be passed on
 */
export function sandboxedStart(path: string, view: SandboxView, command: readonly string[]): SandboxedStart {
  const options = optionsOf(view);
  for (const [name, value] of Object.entries(view.environment)) {
    // One that ended early would go on as options of bubblewrap.
    if (name === '' || /[=\0]/.test(name) || value.includes('\0')) {
      throw new CoveyError(
        'job_invalid',
        `the variable ${JSON.stringify(name)} holds a character that none can`,
      );
    }
    options.push('--setenv', name, value);
  }
  return {
    argv: [path, '--args', String(optionsFd), '--', ...command],
    options: options.map((option) => `${option}\0`).join(''),
  };
}

function optionsOf(view: SandboxView): string[] {
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
  for (const name of hiddenKnowledge) args.push(...covered(`/proc/${name}`));
  for (const directory of ['/tmp', '/dev/shm']) {
    args.push('--size', String(view.temporaryBytes), '--tmpfs', directory);
  }
  for (const directory of systemDirectories) args.push('--ro-bind-try', directory, directory);
  for (const name of [...systemSettings, ...(view.network ? networkSettings : [])]) {
    args.push('--ro-bind-try', `/etc/${name}`, `/etc/${name}`);
  }
  if (view.network) args.push(...networkDeviceOptions());
  for (const device of computeDevices()) args.push('--dev-bind-try', device, device);
  for (const directory of view.hidden) {
    if (systemDirectories.some((shown) => contains(shown, directory))) args.push('--tmpfs', directory);
  }
  args.push('--bind', view.workDirectory, insideWork, '--bind', view.outputDirectory, insideOutput);
  for (const { source, inside } of view.readOnly) args.push('--ro-bind', source, inside);
  // Settings of the kernel are root's to write, also without capabilities. And what holds all this together is memory
  // without a limit: nothing more can be put there.
  for (const directory of ['/proc', '/dev', '/']) args.push('--remount-ro', directory);
  args.push('--chdir', insideWork);
  return args;
}

/** Puts nothing over a file or directory of /proc, where there is one. */
function covered(path: string): string[] {
  const found = statSync(path, { throwIfNoEntry: false });
  if (!found) return [];
  return found.isDirectory()
    ? ['--size', '4096', '--tmpfs', path, '--remount-ro', path]
    : ['--ro-bind', '/dev/null', path];
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
