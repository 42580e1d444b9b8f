import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { parseClients, parseComputeApps, readCardUse } from './card-use.ts';

let proc: string;
beforeEach(() => {
  proc = mkdtempSync(join(tmpdir(), 'covey-card-use-'));
});
afterEach(() => rmSync(proc, { recursive: true, force: true }));

const kib = 1024;
const client = (id: number, lines: string): string =>
  `pos:\t0\ndrm-driver:\tamdgpu\ndrm-client-id:\t${id}\ndrm-pdev:\t0000:03:00.0\n${lines}\n`;

test('compute programs of NVIDIA cards', () => {
  expect(
    parseComputeApps('4711, 00000000:01:00.0, 5120\n4712, 00000000:0A:00.0, [N/A]\n\nNo devices\n'),
  ).toEqual([{ pid: 4711, card: '0000:01:00.0', bytes: 5120 * kib * kib }]);
});

test('clients of other drivers: each once, on the card alone, by the newer word', () => {
  const one = client(7, 'drm-memory-vram:\t900 KiB\ndrm-memory-gtt: 50 KiB\ndrm-resident-vram:\t1000 KiB');
  const two = client(8, 'drm-total-vram0: 9 MiB\ndrm-resident-vram0: 2 MiB\ndrm-resident-system0: 1 MiB');
  const mute = client(9, 'drm-engine-gfx: 5 ns');
  expect(parseClients([one, one, two, mute, 'pos: 0\n'])).toEqual([
    { card: '0000:03:00.0', bytes: 1000 * kib },
    { card: '0000:03:00.0', bytes: 2048 * kib },
  ]);
});

test('both together, by program; what is not asked for, or not told, is not in it', async () => {
  for (const kind of ['fd', 'fdinfo']) mkdirSync(join(proc, '10', kind), { recursive: true });
  symlinkSync('/dev/dri/renderD128', join(proc, '10', 'fd', '5'));
  symlinkSync('/dev/null', join(proc, '10', 'fd', '6'));
  writeFileSync(join(proc, '10', 'fdinfo', '5'), client(1, 'drm-resident-vram: 4 KiB'));
  writeFileSync(join(proc, '10', 'fdinfo', '6'), client(2, 'drm-resident-vram: 4 KiB'));
  const asked: string[] = [];
  const use = await readCardUse(
    [10, 11, 12],
    true,
    async (file) => {
      asked.push(file);
      const stdout = '11, 00000000:01:00.0, 1\n99, 00000000:01:00.0, 1\n';
      return { ok: true, code: 0, stdout, stderr: '' };
    },
    proc,
  );
  expect(Object.fromEntries([...use].map(([pid, cards]) => [pid, Object.fromEntries(cards)]))).toEqual({
    10: { '0000:03:00.0': 4 * kib },
    11: { '0000:01:00.0': kib * kib },
  });
  expect(asked).toEqual(['nvidia-smi']);
  expect((await readCardUse([12], false, undefined, proc)).size).toBe(0);
});
