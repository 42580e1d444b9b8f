import { describe, expect, test } from 'vitest';
import { machineMark, type MachineIdSources } from './machine-id.ts';

const node = 'a'.repeat(64);
const uuid = '0F1E2D3C-4B5A-6978-8796-A5B4C3D2E1F0';
const ran: string[] = [];

function sources(
  platform: NodeJS.Platform,
  files: Readonly<Record<string, string>>,
  stdout: string | null = null,
): MachineIdSources {
  return {
    platform,
    readText: async (path) => {
      const text = files[path];
      if (text === undefined) throw new Error('ENOENT');
      return text;
    },
    run: async (file, args) => {
      ran.push([file, ...args].join(' '));
      return stdout === null ? { ok: false, reason: 'not there' } : { ok: true, code: 0, stdout, stderr: '' };
    },
    systemRoot: 'C:\\Windows',
  };
}

const linux = (id: string): MachineIdSources => sources('linux', { '/etc/machine-id': id });

describe('machine mark', () => {
  test('is the same for one machine and node, another for each other one, and does not tell the id', async () => {
    const id = '0123456789abcdef0123456789abcdef';
    const mark = await machineMark(node, linux(`${id}\n`));
    expect(mark).toMatch(/^[0-9a-f]{64}$/);
    expect(await machineMark(node, linux(`${id.toUpperCase()}\n`))).toBe(mark);
    expect(await machineMark('b'.repeat(64), linux(`${id}\n`))).not.toBe(mark);
    expect(await machineMark(node, linux('f123456789abcdef0123456789abcdef\n'))).not.toBe(mark);
  });

  test('Linux: the place of D-Bus counts when the first has none', async () => {
    const id = '0123456789abcdef0123456789abcdef\n';
    const files = { '/etc/machine-id': 'uninitialized\n', '/var/lib/dbus/machine-id': id };
    expect(await machineMark(node, sources('linux', files))).toBe(await machineMark(node, linux(id)));
  });

  test.each([
    ['macOS', 'darwin', `    | "IOPlatformUUID" = "${uuid}"\n`, /ioreg/],
    ['Windows', 'win32', `\r\n    MachineGuid    REG_SZ    ${uuid.toLowerCase()}\r\n`, /reg\.exe query/],
  ] as const)('%s tells it by a command', async (_name, platform, stdout, command) => {
    expect(await machineMark(node, sources(platform, {}, stdout))).toMatch(/^[0-9a-f]{64}$/);
    expect(ran.at(-1)).toMatch(command);
  });

  test.each([
    ['no file', linux('')],
    ['an image that was not set up', linux('uninitialized\n')],
    ['a placeholder', linux(`${'0'.repeat(32)}\n`)],
    ['a command that fails', sources('darwin', {})],
    ['a command that prints something else', sources('win32', {}, 'ERROR: access denied')],
    ['another system', sources('freebsd', {})],
  ])('is unknown with %s', async (_name, from) => {
    expect(await machineMark(node, from)).toBeNull();
  });
});
