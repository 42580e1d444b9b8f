import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { networkDeviceOptions } from './network-devices.ts';

let root: string;
beforeEach(() => {
  root = realpathSync(mkdtempSync(join(tmpdir(), 'covey-sys-')));
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

function write(path: string, text = ''): void {
  mkdirSync(dirname(join(root, path)), { recursive: true });
  writeFileSync(join(root, path), text);
}
function link(path: string, target: string): void {
  mkdirSync(dirname(join(root, path)), { recursive: true });
  symlinkSync(join(root, target), join(root, path));
}
function pci(name: string, way: string, code: string): string {
  const device = `devices/pci0000:00/${way}${name}`;
  write(`${device}/class`, `0x${code}\n`);
  link(`bus/pci/devices/${name}`, device);
  return device;
}

/** Pairs of what an option shows, or hides, and where. */
function read(options: readonly string[]): { shown: string[]; hidden: string[]; emptied: string[] } {
  const [shown, hidden, emptied]: string[][] = [[], [], []];
  for (const [at, option] of options.entries()) {
    if (option === '--ro-bind-try') shown?.push(options[at + 2] ?? '');
    if (option === '--tmpfs') hidden?.push(options[at + 1] ?? '');
    if (option === '--ro-bind' && options[at + 1] === '/dev/null') emptied?.push(options[at + 2] ?? '');
  }
  return { shown: shown ?? [], hidden: hidden ?? [], emptied: emptied ?? [] };
}

it('shows interfaces, cards and bridges; disks, USB and serial numbers are hidden', () => {
  const bridge = pci('0000:00:01.0', '', '060400');
  const network = pci('0000:01:00.0', '0000:00:01.0/', '020000');
  const disk = pci('0000:02:00.0', '0000:00:01.0/', '010802');
  const usb = pci('0000:00:14.0', '', '0c0330');
  const fabric = pci('0000:00:03.0', '', '0c0600');
  write(`${network}/vpd`);
  write(`${network}/resource0`);
  write(`${network}/numa_node`);
  write(`${bridge}/rom`);
  // A controller with a bus of its own is hidden with all that hangs on it.
  const behind = pci('10000:e1:00.0', '0000:00:14.0/pci10000:e0/', '020000');
  write(`${behind}/vpd`);
  link('class/net/eth0', network);
  mkdirSync(join(root, 'devices/virtual/net/lo'), { recursive: true });
  link('class/net/lo', 'devices/virtual/net/lo');
  mkdirSync(join(root, 'devices/platform/soc/ethernet/net/end0'), { recursive: true });
  link('class/net/end0', 'devices/platform/soc/ethernet/net/end0');
  write('devices/virtual/dmi/id/product_serial', 'secret');
  // On some boards the bus hangs below a platform.
  const elsewhere = 'devices/platform/pcie/pci0001:00/0001:00:00.0';
  write(`${elsewhere}/class`, '0x010802\n');
  link('bus/pci/devices/0001:00:00.0', elsewhere);

  const options = networkDeviceOptions(root);
  const { shown, hidden, emptied } = read(options);
  // Of what is hidden the class is there, without which gloo does not start.
  const classes = [elsewhere, usb, behind, disk].map((device) => `/sys/${device}/class`);
  expect(options.indexOf(`/sys/${disk}/class`)).toBeGreaterThan(options.indexOf(`/sys/${disk}`));
  expect(options.lastIndexOf(`/sys/${disk}`)).toBeGreaterThan(options.indexOf(`/sys/${disk}/class`));
  expect(shown.sort()).toEqual(
    [
      ...classes,
      '/sys/bus/pci',
      '/sys/class/infiniband',
      '/sys/class/net',
      '/sys/devices/pci0000:00',
      '/sys/devices/platform/soc/ethernet/net/end0',
      '/sys/devices/system/cpu',
      '/sys/devices/system/node',
      '/sys/devices/virtual/net/lo',
    ].sort(),
  );
  expect(hidden.sort()).toEqual([`/sys/${usb}`, `/sys/${disk}`].sort());
  expect(emptied.sort()).toEqual(
    [`/sys/${bridge}/rom`, `/sys/${network}/resource0`, `/sys/${network}/vpd`].sort(),
  );
  expect(hidden).not.toContain(`/sys/${fabric}`);
});

it('shows nothing where there is nothing', () => {
  expect(read(networkDeviceOptions(join(root, 'none'))).hidden).toEqual([]);
});
