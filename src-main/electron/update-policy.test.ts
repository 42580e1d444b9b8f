import { expect, test } from 'vitest';
import { compareVersions, mayInstall } from './update-policy.ts';

const idle = { version: '2.0.0', role: 'worker', busy: false, controllerVersion: null } as const;

test('nothing that runs is interrupted', () => {
  expect(mayInstall({ ...idle, busy: true })).toMatch(/nothing runs/);
});

test('a worker waits for its controller, a controller for nobody', () => {
  expect(mayInstall({ ...idle, controllerVersion: '1.9.9' })).toMatch(/controller has it/);
  expect(mayInstall({ ...idle, controllerVersion: '2.0.0' })).toBe(true);
  expect(mayInstall({ ...idle, controllerVersion: '2.1.0' })).toBe(true);
  expect(mayInstall({ ...idle, role: 'controller' })).toBe(true);
});

test('a worker whose controller is not heard is not kept back for ever', () => {
  expect(mayInstall(idle)).toBe(true);
});

test.each([
  ['1.2.3', '1.2.3', 0],
  ['1.2.3', '1.10.0', -1],
  ['2.0.0-beta.2', '2.0.0', -1],
  ['2.0.0-beta.2', '2.0.0-beta.10', -1],
  ['2.0.0+build', '2.0.0', 0],
])('%s against %s', (a, b, sign) => {
  expect(Math.sign(compareVersions(a, b))).toBe(sign);
  expect(Math.sign(compareVersions(b, a)) + 0).toBe(-sign + 0);
});
