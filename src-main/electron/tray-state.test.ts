import { expect, test } from 'vitest';
import type { SelfView } from '#shared/api/self.ts';
import { trayState } from './tray-state.ts';

const nothing = { models: [], engines: 0 };
const member = {
  controllerId: 'c'.repeat(64),
  controllerName: 'office',
  connected: true,
  addresses: [],
  trouble: null,
};
const self = (part: object): SelfView =>
  ({ role: 'worker', membership: null, join: null, lend: null, notices: [], ...part }) as unknown as SelfView;

test.each([
  ['no covey', self({}), nothing, 0, 'idle', 'Belongs to no covey yet'],
  ['a member', self({ membership: member }), nothing, 0, 'idle', 'Ready for office'],
  ['at work', self({ membership: member }), { models: [], engines: 2 }, 0, 'serving', 'Working for office'],
  [
    'cut off, at work',
    self({ membership: { ...member, connected: false } }),
    { models: [], engines: 2 },
    0,
    'attention',
    'Not connected to office',
  ],
  ['an idle controller', self({ role: 'controller' }), nothing, 0, 'idle', 'Controller, no model loaded'],
  ['one model', self({ role: 'controller' }), { models: ['qwen'], engines: 1 }, 0, 'serving', 'Serving qwen'],
  ['two', self({ role: 'controller' }), { models: ['a', 'b'], engines: 0 }, 0, 'serving', 'Serving 2 models'],
  [
    'asked',
    self({ role: 'controller' }),
    { models: ['a'], engines: 0 },
    1,
    'attention',
    'A machine asks to join',
  ],
  [
    'comparing',
    self({ join: { phase: 'comparing', code: '123456' } }),
    nothing,
    0,
    'attention',
    'Joining: compare the number 123456',
  ],
])('%s', (_what, view, serving, asking, picture, line) => {
  expect(trayState({ self: view, serving, asking, lendEnabled: null })).toEqual({
    picture,
    line,
    lend: null,
  });
});

test('the switch says what holds the machine back', () => {
  const lend = {
    lending: false,
    since: 0,
    heldBackBy: [{ rule: 'battery', message: 'on battery' }],
    unavailable: [],
  };
  const state = (enabled: boolean) =>
    trayState({ self: self({ lend }), serving: nothing, asking: 0, lendEnabled: enabled }).lend;
  expect(state(true)).toEqual({ enabled: true, line: 'Lent later: on battery' });
  expect(state(false)).toEqual({ enabled: false, line: 'Lend this machine' });
});

test('a long notice is cut', () => {
  const { line } = trayState({
    self: self({ notices: [{ code: 'x', message: 'word '.repeat(40) }] }),
    serving: nothing,
    asking: 0,
    lendEnabled: null,
  });
  expect(line.length).toBeLessThanOrEqual(60);
  expect(line).toMatch(/…$/);
});
