import { expect, it } from 'vitest';
import type { SelfView } from '#shared/api/self.ts';
import { CoveyError } from '#shared/errors.ts';
import { at, exampleStatus, nodeIdOf } from '../../../e2e/support/views.ts';
import { useCovey } from '../../../e2e/support/use-covey.ts';

const { covey } = useCovey();

const worker: SelfView = {
  role: 'worker',
  nodeId: nodeIdOf('b'),
  name: 'küche',
  version: '0.1.0',
  apiAddress: 'http://127.0.0.1:7878',
  clusterAddress: null,
  dataDirectory: '/nowhere',
  membership: {
    controllerId: nodeIdOf('c'),
    controllerName: 'hall',
    connected: true,
    addresses: [],
    trouble: null,
  },
  join: null,
  lend: { lending: true, since: at, heldBackBy: [], unavailable: [] },
  notices: [],
};
const noLogin = (): never => {
  throw new CoveyError('admin_required', 'This needs a login.');
};

it('on a worker nobody has logged in at, tells of that machine, by the name that the covey knows', async () => {
  const { code, stdout, stderr } = await covey('status', { self: () => worker, status: noLogin });
  expect(code).toBe(0);
  expect(stdout).toMatchInlineSnapshot(`
    "Machine: küche (bbbbbbbbbbbb), covey 0.1.0
    Lent to: hall, connected
    Lending: now
    "
  `);
  expect(stderr).toContain('covey login');
});

it('on a worker with a login, tells of both', async () => {
  const alone = {
    ...worker,
    membership: null,
    lend: {
      lending: false,
      since: at,
      heldBackBy: [{ rule: 'battery' as const, message: 'It runs on battery.' }],
      unavailable: [],
    },
  };
  const { stdout } = await covey('status', { self: () => alone, status: () => exampleStatus });
  expect(stdout).toMatch(
    /^Lent to: nobody yet, see "covey join"\nLending: It runs on battery\.\n\nController:/m,
  );
});

it('as JSON is what the controller answered, and nothing else is asked', async () => {
  const { stdout, api } = await covey('status --json', { self: () => worker, status: () => exampleStatus });
  expect(JSON.parse(stdout)).toEqual(exampleStatus);
  expect(api.requests.map(({ route }) => route)).toEqual(['status']);
  expect((await covey('status --json', { self: () => worker, status: noLogin })).code).toBe(1);
});
