import { describe, expect, it } from 'vitest';
import { dialAddresses } from './own-addresses.ts';

describe('addresses', () => {
  const entry = (address: string, family: 'IPv4' | 'IPv6', internal = false) =>
    ({
      address,
      family,
      internal,
      netmask: '',
      mac: '',
      cidr: null,
      ...(family === 'IPv6' ? { scopeid: 0 } : {}),
    }) as never;
  const interfaces = {
    lo: [entry('127.0.0.1', 'IPv4', true)],
    docker0: [entry('172.17.0.1', 'IPv4')],
    'br-0a1b2c3d4e5f': [entry('172.18.0.1', 'IPv4')],
    usb0: [entry('169.254.7.7', 'IPv4')],
    br0: [entry('10.0.0.5', 'IPv4'), entry('fe80::1', 'IPv6'), entry('2001:db8::5', 'IPv6')],
    wg0: [entry('10.99.0.1', 'IPv4')],
  };

  it('lists routable, then direct cables, then containers and VPNs', () => {
    expect(dialAddresses({ host: '0.0.0.0', port: 7879 }, interfaces).map(({ host }) => host)).toEqual([
      '10.0.0.5',
      '2001:db8::5',
      '169.254.7.7',
      '172.17.0.1',
      '172.18.0.1',
      '10.99.0.1',
    ]);
  });

  it('is loopback on a machine without a network', () => {
    expect(dialAddresses({ host: '::', port: 7879 }, { lo: interfaces.lo })).toEqual([
      { host: '127.0.0.1', port: 7879 },
    ]);
  });

  it('is the bound address alone when it is one, and nothing when nothing listens', () => {
    const bound = { host: '127.0.0.1', port: 4 };
    expect(dialAddresses(bound, interfaces)).toEqual([bound]);
    expect(dialAddresses(null, interfaces)).toEqual([]);
  });
});
