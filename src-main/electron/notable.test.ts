import { expect, test } from 'vitest';
import { notable } from './notable.ts';

const event = (kind: string, level: 'info' | 'warn' | 'error' = 'info') => ({
  id: 1,
  at: 0,
  kind,
  level,
  message: 'anna did it.',
});

test.each([
  ['audit-join-requested', 'A machine asks to join'],
  ['node-lost', 'A machine is lost'],
  ['replica-ready', 'A model is ready'],
])('%s is told', (kind, title) => {
  expect(notable(event(kind))).toEqual({ title, body: 'anna did it.' });
});

test('a load that is tried again is not, one that failed for good is', () => {
  expect(notable(event('replica-failed', 'warn'))).toBeNull();
  expect(notable(event('replica-failed', 'error'))?.title).toMatch(/could not be loaded/);
  expect(notable(event('heartbeat'))).toBeNull();
});
