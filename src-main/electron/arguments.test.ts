import { expect, test } from 'vitest';
import { linkIn, parseDesktopArguments } from './arguments.ts';

test('ours are read, those of Chromium and the system are passed over', () => {
  const options = parseDesktopArguments([
    '--allow-file-access-from-files',
    '--data=/somewhere else/covey',
    '--api=127.0.0.1:0',
    '--cluster=[::1]:7000',
    '--name=anna',
    '--hidden',
    '--no-discovery',
    'covey://join/covey1.abc',
    '-psn_0_12345',
  ]);
  expect(options).toEqual({
    data: '/somewhere else/covey',
    engine: undefined,
    name: 'anna',
    api: { host: '127.0.0.1', port: 0 },
    cluster: { host: '::1', port: 7000 },
    discovery: false,
    hidden: true,
    link: 'covey://join/covey1.abc',
  });
});

test('without any, the places are the usual ones', () => {
  expect(parseDesktopArguments([])).toMatchObject({
    data: undefined,
    api: { host: '127.0.0.1', port: 7878 },
    cluster: { host: '0.0.0.0', port: 7879 },
    discovery: true,
    hidden: false,
    link: null,
  });
});

test('an address that does not read names its option', () => {
  expect(() => parseDesktopArguments(['--api=nonsense'])).toThrow(/--api must be HOST:PORT/);
});

test('other schemes are no links of ours', () => {
  expect(linkIn(['https://join/x', 'file:///covey://join'])).toBeNull();
  expect(linkIn(['x', 'COVEY://join/x'])).toBe('COVEY://join/x');
});
