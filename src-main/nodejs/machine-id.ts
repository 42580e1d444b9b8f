import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { runCommand, type RunCommand } from './run-command.ts';

export interface MachineIdSources {
  readonly platform: NodeJS.Platform;
  readonly readText: (path: string) => Promise<string>;
  readonly run: RunCommand;
  readonly systemRoot: string;
}

const system = (): MachineIdSources => ({
  platform: process.platform,
  readText: (path) => readFile(path, 'utf8'),
  run: runCommand,
  systemRoot: process.env['SystemRoot'] ?? 'C:\\Windows',
});

/**
 * Names this installation of the system without telling its id: 64 hex digits, the SHA-256 of the system's
 * machine id and the node id, so that two nodes of one machine, or one machine in two coveys, cannot be matched.
 * null: the system has no such id (some containers) or does not tell it within seconds.
 */
export async function machineMark(
  nodeId: string,
  sources: MachineIdSources = system(),
): Promise<string | null> {
  const id = await machineId(sources).catch(() => null);
  return id === null ? null : createHash('sha256').update(`covey-machine\n${id}\n${nodeId}`).digest('hex');
}

/** Lower case, as the system writes it; null when it is missing or a placeholder. */
async function machineId({ platform, readText, run, systemRoot }: MachineIdSources): Promise<string | null> {
  switch (platform) {
    case 'linux':
      // machine-id(5); the second is where D-Bus had it before.
      for (const path of ['/etc/machine-id', '/var/lib/dbus/machine-id']) {
        const id = hexId(await readText(path).catch(() => ''), /^([0-9a-f]{32})\s*$/i);
        if (id !== null) return id;
      }
      return null;
    case 'darwin': {
      const outcome = await run('/usr/sbin/ioreg', ['-rd1', '-c', 'IOPlatformExpertDevice']);
      return outcome.ok ? hexId(outcome.stdout, /"IOPlatformUUID"\s*=\s*"([0-9a-f-]{36})"/i) : null;
    }
    case 'win32': {
      const key = 'HKLM\\SOFTWARE\\Microsoft\\Cryptography';
      const program = join(systemRoot, 'System32', 'reg.exe');
      // The 64-bit view: a 32-bit program would see another key.
      const outcome = await run(program, ['query', key, '/v', 'MachineGuid', '/reg:64']);
      return outcome.ok ? hexId(outcome.stdout, /MachineGuid\s+REG_SZ\s+\{?([0-9a-f-]{36})\}?/i) : null;
    }
    default:
      return null;
  }
}

/** The first group of the pattern; ids of one repeated digit are placeholders of firmware and images. */
function hexId(text: string, pattern: RegExp): string | null {
  const id = pattern.exec(text)?.[1]?.toLowerCase();
  return id === undefined || /^(.)\1*$/.test(id.replaceAll('-', '')) ? null : id;
}
