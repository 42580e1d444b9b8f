import { chmodSync, chownSync, cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { checkout } from '../support/checkout.ts';

interface Packages {
  readonly runtimePackages: readonly string[];
  readonly withDependencies: (names: readonly string[]) => readonly object[];
  readonly copyPackages: (packages: readonly object[], into: string) => void;
}

/** What the archive without a window holds, of the build that is there and without an engine. */
export async function makeHeadlessPlace(directory: string): Promise<string> {
  const script = path.join(checkout, 'scripts', 'release', 'packages.mjs');
  const { runtimePackages, withDependencies, copyPackages } = (await import(
    pathToFileURL(script).href
  )) as Packages;
  cpSync(path.join(checkout, 'dist'), path.join(directory, 'dist'), {
    recursive: true,
    filter: (file) => !file.endsWith('.map'),
  });
  copyPackages(withDependencies(runtimePackages), directory);
  const { version } = JSON.parse(readFileSync(path.join(checkout, 'package.json'), 'utf8')) as {
    version: string;
  };
  writeFileSync(
    path.join(directory, 'package.json'),
    JSON.stringify({ name: 'covey', version, type: 'module' }),
  );
  mkdirSync(path.join(directory, 'bin'));
  cpSync(process.execPath, path.join(directory, 'bin', 'node'));
  for (const [from, to] of [
    ['covey', 'bin/covey'],
    ['install.sh', 'install.sh'],
  ] as const) {
    cpSync(path.join(checkout, 'resources', 'headless', from), path.join(directory, to));
    chmodSync(path.join(directory, to), 0o755);
  }
  return directory;
}

/** What a `systemctl` does instead: notes what it was told, and fails where no systemd shall seem to run. */
export interface Systemctl {
  readonly calls: string;
  /** First in PATH. */
  readonly bin: string;
}

export function makeSystemctl(directory: string, runs: boolean): Systemctl {
  const calls = path.join(directory, 'systemctl-calls');
  const bin = path.join(directory, 'stub');
  mkdirSync(bin, { recursive: true });
  writeFileSync(calls, '', { mode: 0o666 });
  chmodSync(calls, 0o666);
  writeFileSync(path.join(bin, 'systemctl'), `#!/bin/sh\necho "$*" >>'${calls}'\n${runs ? '' : 'exit 1\n'}`, {
    mode: 0o755,
  });
  return { calls, bin };
}

/** Somebody who is not root, with a home. */
export interface Person {
  readonly home: string;
  readonly data: string;
  readonly options: { uid?: number; gid?: number; cwd: string; env: NodeJS.ProcessEnv };
}

export function makePerson(home: string, { bin }: Systemctl): Person {
  mkdirSync(home, { recursive: true });
  const root = process.getuid?.() === 0;
  if (root) chownSync(home, 65_534, 65_534);
  return {
    home,
    data: path.join(home, '.local', 'share', 'covey'),
    options: {
      ...(root ? { uid: 65_534, gid: 65_534 } : {}),
      cwd: home,
      env: { PATH: `${bin}:${process.env['PATH']}`, HOME: home },
    },
  };
}
