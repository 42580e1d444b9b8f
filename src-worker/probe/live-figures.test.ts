import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Device } from '#shared/domain/node.ts';
import { createCardWatch, parseNvidiaSmi, readAmdCards } from './card-figures.ts';
import { createCpuTemperature, findSensors } from './cpu-temperature.ts';
import {
  createNetworkRate,
  parseNetstatE,
  parseNetstatIbn,
  parseProcNetDev,
  rateBetween,
} from './network-rate.ts';

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'covey-figures-'));
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

function files(contents: Readonly<Record<string, string>>): void {
  for (const [path, text] of Object.entries(contents)) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), text);
  }
}

describe('network', () => {
  test('counters of each adapter, with and without a space after the name', () => {
    const text = `Inter-|   Receive                    |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo: 100 1 0 0 0 0 0 0 100 1 0 0 0 0 0 0
  eth0:9537163328  204217    0    0    0     0          0         0 15940442  121861    0    0    0     0       0          0
`;
    expect([...parseProcNetDev(text)]).toEqual([
      ['lo', { receivedBytes: 100, sentBytes: 100 }],
      ['eth0', { receivedBytes: 9_537_163_328, sentBytes: 15_940_442 }],
    ]);
  });

  test('netstat of macOS and of Windows in two languages', () => {
    expect(
      parseNetstatIbn(
        [
          'Name       Mtu   Network       Address            Ipkts Ierrs     Ibytes    Opkts Oerrs     Obytes  Coll',
          'lo0        16384 <Link#1>                           100     0       1000      100     0       1000     0',
          'en0        1500  <Link#11>   a4:83:e7:00:00:00    12345     0   99000000    54321     0    7000000     0',
          'en0        1500  192.168.1     192.168.1.20       12345     -   99000000    54321     -    7000000     -',
        ].join('\n'),
      ),
    ).toEqual({ receivedBytes: 99_000_000, sentBytes: 7_000_000 });
    expect(
      parseNetstatE(
        'Interface Statistics\r\n\r\n                           Received            Sent\r\n\r\nBytes                    4028937128       301929839\r\nUnicast packets             6212236         1849920\r\n',
      ),
    ).toEqual({ receivedBytes: 4_028_937_128, sentBytes: 301_929_839 });
    expect(
      parseNetstatE(
        'Schnittstellenstatistik\n\n                   Empfangen   Gesendet\n\nBytes              10          20\n',
      ),
    ).toEqual({ receivedBytes: 10, sentBytes: 20 });
    expect([parseNetstatE(''), parseNetstatIbn('')]).toEqual([null, null]);
  });

  test('the rate is over the time between; a counter that began again is no negative traffic', () => {
    const at = (ms: number, receivedBytes: number, sentBytes: number) => ({
      at: ms,
      counters: { receivedBytes, sentBytes },
    });
    expect(rateBetween(at(0, 1_000, 0), at(2_000, 5_000, 100))).toEqual({
      receiveBytesPerS: 2_000,
      sendBytesPerS: 50,
    });
    expect(rateBetween(at(0, 1_000, 500), at(1_000, 10, 600))).toEqual({
      receiveBytesPerS: 0,
      sendBytesPerS: 100,
    });
  });

  test.runIf(process.platform === 'linux')('this machine: unknown at first, then figures', () => {
    let now = 0;
    const rate = createNetworkRate(() => now);
    expect(rate.sample()).toEqual({ receiveBytesPerS: null, sendBytesPerS: null });
    now = 1_000;
    const { receiveBytesPerS, sendBytesPerS } = rate.sample();
    expect(receiveBytesPerS).toBeGreaterThanOrEqual(0);
    expect(sendBytesPerS).toBeGreaterThanOrEqual(0);
  });
});

describe('cards', () => {
  const card = (id: string, pciId: string | null): Device => ({
    id,
    kind: 'gpu',
    backend: id.replace(/\d+$/, ''),
    name: 'card',
    totalBytes: 9,
    freeBytes: 3,
    pciId,
  });

  test('what nvidia-smi prints, also of a card that does not tell everything', () => {
    expect(
      parseNvidiaSmi('00000000:01:00.0, 23592, 35, 61\n00000000:0A:00.0, 8000, [N/A], [N/A]\n\n'),
    ).toEqual([
      { pciId: '0000:01:00.0', freeBytes: 23_592 * 1024 ** 2, load: 0.35, celsius: 61 },
      { pciId: '0000:0a:00.0', freeBytes: 8_000 * 1024 ** 2, load: null, celsius: null },
    ]);
    expect(parseNvidiaSmi('NVIDIA-SMI has failed because it could not communicate')).toEqual([]);
  });

  test("the amdgpu driver's files", async () => {
    files({
      'card0/device/uevent': 'DRIVER=amdgpu\nPCI_SLOT_NAME=0000:03:00.0\n',
      'card0/device/gpu_busy_percent': '42\n',
      'card0/device/mem_info_vram_total': '1000\n',
      'card0/device/mem_info_vram_used': '400\n',
      'card0/device/hwmon/hwmon3/temp1_input': '55000\n',
      'card1/device/uevent': 'DRIVER=i915\nPCI_SLOT_NAME=0000:00:02.0\n',
      'card0-DP-1/status': 'connected\n',
    });
    expect(await readAmdCards(root)).toEqual([
      { pciId: '0000:03:00.0', freeBytes: 600, load: 0.42, celsius: 55 },
    ]);
  });

  test('are asked for in the background every 5 s, and a tool that is missing is left alone', async () => {
    let now = 0;
    const asked: string[] = [];
    let answer = '00000000:01:00.0, 100, 10, 40\n';
    const watch = createCardWatch(() => now, {
      run: async (file) => {
        asked.push(file);
        return answer === ''
          ? { ok: false, reason: 'there is none' }
          : { ok: true, code: 0, stdout: answer, stderr: '' };
      },
      amd: async () => [],
    });
    watch.figures([{ ...card('CPU', null), kind: 'cpu' }, card('CUDA0', null)]);
    expect(asked).toEqual([]);
    expect(watch.figures([card('CUDA0', '0000:01:00.0')]).size).toBe(0);
    await expect
      .poll(() => watch.figures([card('CUDA0', '0000:01:00.0')]).get('0000:01:00.0')?.load)
      .toBe(0.1);
    expect(asked).toHaveLength(1);
    now = 5_000;
    answer = '';
    watch.figures([card('CUDA0', '0000:01:00.0')]);
    await expect.poll(() => watch.figures([card('CUDA0', '0000:01:00.0')]).size).toBe(0);
    now = 60_000;
    watch.figures([card('CUDA0', '0000:01:00.0')]);
    expect(asked).toHaveLength(2);
  });
});

describe('temperature', () => {
  test("the processor's own chip counts, not the disk's", async () => {
    files({
      'hwmon/hwmon0/name': 'nvme\n',
      'hwmon/hwmon0/temp1_input': '80000\n',
      'hwmon/hwmon1/name': 'coretemp\n',
      'hwmon/hwmon1/temp1_input': '51000\n',
      'hwmon/hwmon1/temp2_input': '57500\n',
      'hwmon/hwmon1/temp3_input': '0\n',
      'thermal/thermal_zone0/type': 'x86_pkg_temp\n',
      'thermal/thermal_zone0/temp': '99000\n',
    });
    expect((await findSensors(root)).map((file) => file.slice(root.length))).toEqual([
      '/hwmon/hwmon1/temp1_input',
      '/hwmon/hwmon1/temp2_input',
      '/hwmon/hwmon1/temp3_input',
    ]);
    if (process.platform !== 'linux') return;
    const temperature = createCpuTemperature(() => 0, root);
    expect(temperature.celsius()).toBeNull();
    await expect.poll(() => temperature.celsius()).toBe(57.5);
  });

  test('thermal zones where there is no chip; nothing where there is neither', async () => {
    expect(await findSensors(root)).toEqual([]);
    files({
      'thermal/thermal_zone0/type': 'cpu-thermal\n',
      'thermal/thermal_zone0/temp': '44000\n',
      'thermal/thermal_zone1/type': 'iwlwifi_1\n',
      'thermal/thermal_zone1/temp': '70000\n',
    });
    expect((await findSensors(root)).map((file) => file.slice(root.length))).toEqual([
      '/thermal/thermal_zone0/temp',
    ]);
  });
});
