import type { NetworkInterfaceInfo } from 'node:os';
import { describe, expect, it } from 'vitest';
import { createVicinity, planInterfaces, type Interfaces } from './interfaces.ts';

const v4 = (address: string, bits = 24, mac = '02:00:00:00:00:01'): NetworkInterfaceInfo => ({
  address,
  netmask:
    bits === 24
      ? '255.255.255.0'
      : bits === 16
        ? '255.255.0.0'
        : bits === 8
          ? '255.0.0.0'
          : '255.255.255.255',
  family: 'IPv4',
  mac,
  internal: address.startsWith('127.'),
  cidr: `${address}/${bits}`,
});
const v6 = (address: string): NetworkInterfaceInfo => ({
  address,
  netmask: 'ffff:ffff:ffff:ffff::',
  family: 'IPv6',
  mac: '02:00:00:00:00:01',
  internal: address === '::1',
  cidr: `${address}/64`,
  scopeid: 0,
});
const lo = [v4('127.0.0.1', 8), v6('::1')];

describe('which interfaces are used', () => {
  it('real ones first, direct cables after them, containers and VPNs last, loopback not at all', () => {
    const plan = planInterfaces({
      docker0: [v4('172.17.0.1', 16)],
      lo,
      wg9: [v4('10.99.0.1', 32)],
      corp: [v4('10.98.0.1', 32, '00:00:00:00:00:00')],
      usb0: [v4('169.254.9.9', 16)],
      eth0: [v4('10.0.0.5'), v6('fe80::1'), v6('2001:db8::5')],
    });
    expect(plan.used.map((one) => `${one.name}${one.virtual ? ' virtual' : ''}`)).toEqual([
      'eth0',
      'usb0',
      'docker0 virtual',
      'wg9 virtual',
      'corp virtual',
    ]);
    expect(plan.ownAddresses).toEqual([
      '10.0.0.5',
      '169.254.9.9',
      '2001:db8::5',
      '172.17.0.1',
      '10.99.0.1',
      '10.98.0.1',
    ]);
  });

  it('loopback when there is no other', () => {
    expect(planInterfaces({ lo })).toMatchObject({ used: [{ address: '127.0.0.1' }], ownAddresses: [] });
    expect(planInterfaces({})).toEqual({ used: [], unused: [], ownAddresses: [] });
  });

  it('says that IPv6 alone is not enough, but not for every idle adapter', () => {
    const plan = planInterfaces({ lo, eth0: [v6('2001:db8::5')], awdl0: [v6('fe80::3')] });
    expect(plan.used.map((one) => one.name)).toEqual(['lo']);
    expect(plan.unused).toMatchObject([{ name: 'eth0', problem: expect.stringContaining('only IPv6') }]);
    expect(plan.ownAddresses).toEqual(['2001:db8::5']);
  });

  it('opens a bounded number of sockets', () => {
    const bridges = Object.fromEntries(
      Array.from({ length: 40 }, (_none, index) => [`br-${index}`, [v4(`10.${index}.0.1`)]]),
    );
    const plan = planInterfaces({ ...bridges, eth0: [v4('192.168.1.2')] });
    expect(plan.used).toHaveLength(16);
    expect(plan.used[0]?.name).toBe('eth0');
    expect(plan.unused).toHaveLength(25);
  });
});

describe('the vicinity', () => {
  const interfaces: Interfaces = {
    lo,
    eth0: [v4('192.0.2.5'), v6('2001:db8::5')],
    usb0: [v4('169.254.9.9', 16)],
  };
  const vicinity = createVicinity(planInterfaces(interfaces), interfaces);

  it('knows by the subnet on which interface somebody is', () => {
    expect(vicinity.near('192.0.2.77')).toMatchObject({ exact: true, on: [{ name: 'eth0' }] });
    expect(vicinity.near('169.254.200.1')).toMatchObject({ exact: true, on: [{ name: 'usb0' }] });
    expect(vicinity.near('10.1.1.1')).toMatchObject({
      exact: false,
      on: [{ name: 'eth0' }, { name: 'usb0' }],
    });
  });

  it('lets nobody point at the internet, at multicast or at loopback', () => {
    for (const good of [
      '192.0.2.9',
      '10.1.2.3',
      '172.31.0.1',
      '192.168.0.1',
      '169.254.1.1',
      '100.64.0.1',
      'fd12::1',
      '2001:db8::9',
    ]) {
      expect(vicinity.plausible(good), good).toBe(true);
    }
    for (const bad of [
      '198.51.100.1',
      '8.8.8.8',
      '127.0.0.2',
      '0.0.0.0',
      '224.0.0.251',
      '255.255.255.255',
      'fe80::1',
      '2001:db8:1::1',
      '::2',
      'ff02::fb',
    ]) {
      expect(vicinity.plausible(bad), bad).toBe(false);
    }
    expect(vicinity.isOwn('127.0.0.1')).toBe(true);
  });
});
