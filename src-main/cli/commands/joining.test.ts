import { afterEach, describe, expect, test } from 'vitest';
import type { JoinView, PendingView } from '#shared/api/joining.ts';
import type { SelfView } from '#shared/api/self.ts';
import { CoveyError } from '#shared/errors.ts';
import { scriptedIo, type ScriptedIo } from '../../../e2e/support/cli-io.ts';
import { startScriptedApi, type RouteScript, type ScriptedApi } from '../../../e2e/support/scripted-api.ts';
import { at, nodeIdOf } from '../../../e2e/support/views.ts';
import type { ApiRoute } from '#shared/api/schema.ts';
import { Exit } from '../failure.ts';
import { runCli } from '../main.ts';

let api: ScriptedApi | null = null;
afterEach(async () => {
  await api?.close();
  api = null;
});

const home = nodeIdOf('c');
const joining = (changes: Partial<JoinView> = {}): JoinView => ({
  phase: 'connecting',
  by: 'approval',
  controller: { nodeId: home, name: 'home', address: { host: '192.0.2.1', port: 7879 } },
  code: null,
  confirmed: false,
  expiresAt: null,
  error: null,
  ...changes,
});
const comparing = joining({ phase: 'comparing', code: '012345', expiresAt: at + 300_000 });
const approved = joining({ phase: 'approved', code: '012345', expiresAt: at + 300_000 });
const joined = joining({ phase: 'joined' });
const self = (join: JoinView | null, membership: SelfView['membership'] = null): SelfView => ({
  role: 'worker',
  nodeId: nodeIdOf('a'),
  name: 'anna',
  version: '0.1.0',
  apiAddress: 'http://127.0.0.1:7878',
  clusterAddress: null,
  dataDirectory: '/somewhere',
  membership,
  join,
  lend: null,
  notices: [],
});

async function covey(
  words: string,
  scripts: Partial<Record<ApiRoute, RouteScript>>,
  io: ScriptedIo = scriptedIo(),
): Promise<{ code: number; stdout: string; stderr: string; routes: string[]; bodies: unknown[] }> {
  api = await startScriptedApi(scripts);
  const code = await runCli(['--data', api.dataDirectory, ...words.split(' ')], io);
  return {
    code,
    stdout: io.stdout(),
    stderr: io.stderr(),
    routes: api.requests.map((request) => request.route),
    bodies: api.requests.map((request) => request.body),
  };
}
/** Views that `self` shows one after the other; the last one stays. */
function views(...all: JoinView[]): RouteScript {
  return () => self((all.length > 1 ? all.shift() : all[0]) ?? null);
}

describe('covey join', () => {
  test('shows the number, waits until it was typed, asks, and says who has it now', async () => {
    const io = scriptedIo({ answers: ['y'] });
    const { code, stdout, stderr, routes } = await covey(
      'join',
      {
        join: () => joining(),
        self: views(joining(), comparing, comparing, approved, { ...approved, confirmed: true }, joined),
        confirmJoin: () => approved,
      },
      io,
    );
    expect(code, stderr).toBe(0);
    expect(stderr).toContain('covey approve 012 345');
    expect(stderr.match(/covey approve/g)).toHaveLength(1);
    expect(stderr).toContain('5 min');
    expect(stdout).toContain('home (cccccccccccc)');
    expect(routes.filter((route) => route === 'confirmJoin')).toHaveLength(1);
    expect(routes).not.toContain('cancelJoin');
  });

  test('draws it large on a terminal', async () => {
    const io = scriptedIo({ answers: ['yes'], errIsTty: true });
    const scripts = { join: () => comparing, self: views(approved, joined), confirmJoin: () => approved };
    const { stderr } = await covey('join', scripts, io);
    expect(stderr).toMatch(/██████ {4}██ {4}██████ {6}██████ {2}██ {2}██ {2}██████/);
  });

  test.each([['n'], ['No '], ['', 'maybe', 'n']])('no takes the request back: %j', async (...answers) => {
    const io = scriptedIo({ answers });
    const { code, routes } = await covey('join', { join: () => approved, cancelJoin: () => joining() }, io);
    expect(code).toBe(1);
    expect(routes).toEqual(['join', 'cancelJoin']);
  });

  test('what is neither yes nor no is asked again', async () => {
    const io = scriptedIo({ answers: ['', 'yy', 'y'] });
    const scripts = { join: () => approved, self: views(joined), confirmJoin: () => approved };
    const { code, routes } = await covey('join', scripts, io);
    expect(code).toBe(0);
    expect(routes).toEqual(['join', 'confirmJoin', 'self']);
  });

  test('nobody can answer: it is said, and taken back', async () => {
    const { code, stderr, routes } = await covey('join', {
      join: () => approved,
      cancelJoin: () => joining(),
    });
    expect(code).toBe(2);
    expect(stderr).toMatch(/A person at this machine must confirm/);
    expect(routes.at(-1)).toBe('cancelJoin');
  });

  test('an interrupt from elsewhere takes the question back, and the request', async () => {
    const io: ScriptedIo = scriptedIo({
      ask: (_question, signal) =>
        new Promise((resolve) => {
          signal?.addEventListener('abort', () => resolve(null));
          io.interrupt();
        }),
    });
    const { code, routes } = await covey('join', { join: () => approved, cancelJoin: () => joining() }, io);
    expect(code).toBe(130);
    expect(routes).toEqual(['join', 'cancelJoin']);
  });

  test('Ctrl-C takes the request back', async () => {
    const io = scriptedIo();
    const { code, routes } = await covey(
      'join 192.0.2.1',
      {
        join: () => comparing,
        self: () => {
          io.interrupt();
          return self(comparing);
        },
        cancelJoin: () => joining({ phase: 'idle' }),
      },
      io,
    );
    expect(code).toBe(130);
    expect(routes.at(-1)).toBe('cancelJoin');
  });

  test('Ctrl-C at the question as well', async () => {
    const io = scriptedIo({ ask: () => Promise.reject(new Exit(130)) });
    const { code, routes } = await covey('join', { join: () => approved, cancelJoin: () => approved }, io);
    expect(code).toBe(130);
    expect(routes.at(-1)).toBe('cancelJoin');
  });

  test('what ends the request is said', async () => {
    const error = { code: 'join_denied', message: 'The controller has denied it.' } as const;
    const { code, stderr, routes } = await covey('join', {
      join: () => comparing,
      self: views(joining({ phase: 'failed', error })),
    });
    expect(code).toBe(1);
    expect(stderr).toContain('The controller has denied it.');
    expect(routes).not.toContain('cancelJoin');
  });

  test('a request that ends while the question stands there', async () => {
    const error = { code: 'join_expired', message: 'It has expired.' } as const;
    const { code, stderr } = await covey(
      'join',
      {
        join: () => approved,
        confirmJoin: () => {
          throw new CoveyError('join_not_running', 'There is none.');
        },
        self: views(joining({ phase: 'failed', error })),
      },
      scriptedIo({ answers: ['y'] }),
    );
    expect(code).toBe(1);
    expect(stderr).toContain('It has expired.');
  });

  test('several controllers are listed', async () => {
    const { code, stderr } = await covey('join', {
      join: () => {
        throw new CoveyError('controllers_ambiguous', 'There are several.', {
          reasons: [
            { code: 'controller', message: 'cccccccccccc  home at 192.0.2.1:7879' },
            { code: 'controller', message: 'dddddddddddd  attic at 192.0.2.2:7879' },
          ],
        });
      },
    });
    expect(code).toBe(1);
    expect(stderr).toMatch(/home at 192\.0\.2\.1:7879\n.*attic at/);
  });

  test.each([
    ['join', {}],
    ['join home', { controller: 'home' }],
    ['join covey1.abc', { joinString: 'covey1.abc' }],
    ['join -', { joinString: 'covey1.xyz' }],
  ])('%s', async (words, body) => {
    const io = scriptedIo({ answers: [' covey1.xyz\n'] });
    const { code, bodies } = await covey(words, { join: () => joined }, io);
    expect(code).toBe(0);
    expect(bodies).toEqual([body]);
  });

  test('--json prints the last view alone', async () => {
    const { stdout } = await covey('--json join home', { join: () => joining(), self: views(joined) });
    expect(JSON.parse(stdout)).toMatchObject({ phase: 'joined' });
  });
});

describe('covey secret', () => {
  const secret = `covey-secret.${'ab'.repeat(16)}`;

  test('show and new print it alone on stdout', async () => {
    expect((await covey('secret show', { clusterSecret: () => ({ secret }) })).stdout).toBe(`${secret}\n`);
    await api?.close();
    expect((await covey('secret new', { newClusterSecret: () => ({ secret }) })).stdout).toBe(`${secret}\n`);
    await api?.close();
    const none = await covey('secret', { clusterSecret: () => ({ secret: null }) });
    expect(none.code).toBe(1);
    expect(none.stderr).toContain('covey secret new');
  });

  test('set sends what was read, never what stands in argv', async () => {
    const io = scriptedIo({ answers: [`${secret}\n`] });
    const { code, bodies } = await covey('secret set', { join: () => joined }, io);
    expect(code).toBe(0);
    expect(bodies).toEqual([{ clusterSecret: secret }]);
    await api?.close();
    const wrong = await covey(`secret set ${secret}`, { join: () => joined });
    expect(wrong.code).toBe(2);
  });

  test('set: with no controller in sight it says that the machine goes on looking', async () => {
    const io = scriptedIo({ answers: [secret] });
    const looking = joining({ by: 'cluster-secret', controller: null });
    const { code, stderr, routes } = await covey(
      'secret set',
      { join: () => looking, self: views(looking) },
      io,
    );
    expect(code).toBe(0);
    expect(stderr).toContain('joins by itself');
    expect(routes).not.toContain('cancelJoin');
  });

  test('drop', async () => {
    const { code, routes } = await covey('secret drop', { dropClusterSecret: () => ({}) });
    expect(code).toBe(0);
    expect(routes).toEqual(['dropClusterSecret']);
  });
});

describe('at the controller', () => {
  const waiting: PendingView = {
    id: 'aaaaaaaaaaaa',
    nodeId: nodeIdOf('a'),
    name: 'anna',
    remoteAddress: '192.0.2.7',
    askedAt: at - 1_000,
    expiresAt: at + 299_000,
    approved: false,
    confirmed: false,
  };

  test('pending lists who waits, for what, and who is blocked', async () => {
    const { stdout } = await covey('pending', {
      pending: () => ({
        pending: [
          waiting,
          { ...waiting, name: 'ben\u001b[2J', confirmed: true },
          { ...waiting, approved: true },
        ],
        blocked: [{ nodeId: nodeIdOf('b'), name: 'mallory', blockedAt: at - 60_000 }],
      }),
    });
    expect(stdout).toMatch(/aaaaaaaaaaaa {2}anna/);
    expect(stdout).toContain('its number here, then there');
    expect(stdout).toContain('its confirmation there');
    expect(stdout).not.toContain('\u001b[2J');
    expect(stdout).toMatch(/bbbbbbbbbbbb {2}mallory/);
    for (const line of stdout.split('\n')) expect(line.length).toBeLessThanOrEqual(80);
  });

  test('pending asks for a number only while one is waited for', async () => {
    const list = (...all: PendingView[]) => ({ pending: () => ({ pending: all, blocked: [] }) });
    const approvedOne = { ...waiting, approved: true };
    expect((await covey('pending', list(approvedOne))).stdout).not.toContain('Type the number');
    await api?.close();
    expect((await covey('pending', list(approvedOne, waiting))).stdout).toContain('Type the number');
  });

  test('pending says what to do when nobody waits', async () => {
    const { stdout } = await covey('pending', { pending: () => ({ pending: [], blocked: [] }) });
    expect(stdout).toContain('covey join');
  });

  test.each(['approve 123 456', 'approve 123456', 'approve 123-456'])('%s', async (words) => {
    const { code, bodies, stdout } = await covey(words, { approve: () => ({ ...waiting, approved: true }) });
    expect(code).toBe(0);
    expect(bodies).toEqual([{ code: '123456' }]);
    expect(stdout).toContain('Confirm it there');
  });

  test.each(['approve 12345', 'approve aaaaaaaaaaaa'])('%s is no number', async (words) => {
    const { code, stderr, routes } = await covey(words, {});
    expect(code).toBe(2);
    expect(stderr).toContain('six digits');
    expect(routes).toEqual([]);
  });

  test('approve of one that has confirmed already, deny, block and unblock', async () => {
    const both = { ...waiting, approved: true, confirmed: true };
    expect((await covey('approve 123456', { approve: () => both })).stdout).toContain('let in');
    await api?.close();
    const denied = await covey('deny aaaaaaaaaaaa --block', { deny: () => waiting });
    expect(denied.bodies).toEqual([{ block: true }]);
    expect(denied.stdout).toContain('covey unblock aaaaaaaaaaaa');
    await api?.close();
    const free = await covey('unblock aaaaaaaaaaaa', { unblock: () => ({}) });
    expect(free.code).toBe(0);
  });
});

describe('covey leave', () => {
  const membership = {
    controllerId: home,
    controllerName: 'home',
    connected: true,
    addresses: [],
    trouble: null,
  };

  test('asks once, and does it', async () => {
    const scripts = { self: () => self(null, membership), leave: () => self(joining({ phase: 'idle' })) };
    const no = await covey('leave', scripts, scriptedIo({ answers: ['n'] }));
    expect(no.code).toBe(1);
    expect(no.routes).toEqual(['self']);
    await api?.close();
    const yes = await covey('leave --yes', scripts);
    expect(yes.code).toBe(0);
    expect(yes.stdout).toContain('home');
  });

  test('a machine that belongs to none is told so', async () => {
    const { code, stderr } = await covey('leave', { self: () => self(joining()) });
    expect(code).toBe(1);
    expect(stderr).toContain('belongs to no covey');
  });
});
