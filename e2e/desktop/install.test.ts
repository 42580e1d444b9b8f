import { execFileSync, spawnSync } from 'node:child_process';
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { useCluster } from '../support/use-cluster.ts';
import { makeHeadlessPlace, makePerson, makeSystemctl, type Person } from './headless-place.ts';

const cluster = useCluster();
const root = process.getuid?.() === 0;

interface Outcome {
  readonly code: number | null;
  readonly said: string;
}

/** The install script for real, with a `systemctl` that only notes what it was told. */
describe.skipIf(process.platform !== 'linux')('the install script', () => {
  const directory = mkdtempSync(path.join(os.tmpdir(), 'covey-install-'));
  let place: string;
  beforeAll(async () => {
    chmodSync(directory, 0o755);
    place = await makeHeadlessPlace(path.join(directory, 'covey'));
  }, 120_000);
  afterAll(() => rmSync(directory, { recursive: true, force: true }));

  const run = (person: Person, words: readonly string[], input = ''): Outcome => {
    const { status, stderr } = spawnSync('sh', [path.join(place, 'install.sh'), ...words], {
      ...person.options,
      input,
      encoding: 'utf8',
      timeout: 90_000,
    });
    return { code: status, said: stderr };
  };
  const unitOf = ({ home }: Person): string => path.join(home, '.config', 'systemd', 'user', 'covey.service');

  test('makes a service for one person that has joined, and takes it away again', async () => {
    const controller = await cluster.current.startController();
    const systemctl = makeSystemctl(path.join(directory, 'one'), true);
    const person = makePerson(path.join(directory, 'one', 'home'), systemctl);
    const joinString = await controller.invite();
    // Its own way to the controller, where the string has none that works: nothing listens at the first.
    const at = (controller.report.clusterAddress ?? '').replace('0.0.0.0', '127.0.0.1');
    const words = ['worker', '--join', '-', '--controller', at];
    expect(run(person, words, `${joinString}\n`)).toMatchObject({
      code: 0,
      said: expect.stringMatching(/joined\.[^]*is installed and runs/) as string,
    });
    expect((await controller.client.call('nodes')).nodes).toHaveLength(1);
    const membership = path.join(person.data, 'membership.json');
    expect(readFileSync(membership, 'utf8')).toContain('"127.0.0.1"');
    const unit = readFileSync(unitOf(person), 'utf8');
    expect(unit).toContain(
      `ExecStart=${person.home}/.local/opt/covey/bin/covey worker --data ${person.data}\n`,
    );
    expect(unit).not.toContain('covey1.');
    expect(readFileSync(systemctl.calls, 'utf8')).toContain('--user enable --now covey.service');
    const command = path.join(person.home, '.local/bin/covey');
    expect(execFileSync(command, ['--version'], { encoding: 'utf8' })).toMatch(/^\d/);
    expect(statSync(person.data).mode & 0o777).toBe(0o700);

    const kept = run(person, ['uninstall']);
    expect(kept.said).toMatch(/still in .*--purge/);
    for (const gone of [unitOf(person), command, path.join(person.home, '.local/opt/covey')]) {
      expect(existsSync(gone), gone).toBe(false);
    }
    expect(readFileSync(systemctl.calls, 'utf8')).toContain('--user disable --now covey.service');
    expect(existsSync(membership)).toBe(true);
    expect(run(person, ['uninstall', '--purge']).said).toContain('with its data');
    expect(existsSync(person.data)).toBe(false);
  });

  test('says so where systemd does not run, and leaves what is needed', () => {
    const systemctl = makeSystemctl(path.join(directory, 'two'), false);
    // A home whose name systemd would take apart.
    const person = makePerson(path.join(directory, 'two', 'my "50%" $HOME'), systemctl);
    const { code, said } = run(person, ['controller', '--lend']);
    expect(code).toBe(0);
    expect(said).toContain('systemd does not run here, so nothing was started');
    expect(said).toContain(
      `${person.home}/.local/opt/covey/bin/covey controller --lend --data ${person.data}`,
    );
    expect(said).not.toContain('and runs.');
    const unit = unitOf(person);
    expect(readFileSync(unit, 'utf8')).toContain(
      `ExecStart=/usr/bin/env "${directory}/two/my \\"50%%\\" $$HOME/.local/opt/covey/bin/covey" controller --lend --data "`,
    );
    if (existsSync('/usr/bin/systemd-analyze')) {
      const verified = spawnSync('systemd-analyze', ['verify', unit], { encoding: 'utf8' });
      expect(verified.stderr + verified.stdout).not.toMatch(
        /covey\.service.*(not executable|bad|invalid|unknown|ignor)/i,
      );
    }
    expect(run(person, ['uninstall', '--keep-data']).code).toBe(0);
    expect(existsSync(unit)).toBe(false);
  });

  test('asks about the data on a terminal', () => {
    const systemctl = makeSystemctl(path.join(directory, 'three'), true);
    const person = makePerson(path.join(directory, 'three', 'home'), systemctl);
    expect(run(person, ['worker']).said).toContain('covey join --data');
    const answered = (answer: string): string =>
      execFileSync('script', ['-qec', `sh '${place}/install.sh' uninstall`, '/dev/null'], {
        ...person.options,
        input: `${answer}\n`,
        encoding: 'utf8',
        timeout: 30_000,
      });
    expect(answered('')).toMatch(/Remove its data too.*\[y\/N\][^]*still in/);
    expect(existsSync(person.data)).toBe(true);
    expect(answered('y')).toContain('with its data');
    expect(existsSync(person.data)).toBe(false);
  });

  test('refuses words it does not know, and a join string among them, before it changes anything', () => {
    const systemctl = makeSystemctl(path.join(directory, 'four'), true);
    const person = makePerson(path.join(directory, 'four', 'home'), systemctl);
    for (const [words, why, code] of [
      [[], /uninstall \[--keep-data\|--purge\]/, 2],
      [['remove'], /no "remove"/, 2],
      [['controller', '--join', '-'], /"--join" is not for "controller"/, 2],
      [['uninstall', '--lend'], /"--lend" is not for "uninstall"/, 2],
      [['worker', '--join', 'covey1.abc'], /seen by everybody/, 1],
      [['worker', '--controller', 'http://a b'], /HOST:PORT/, 1],
      [['worker', '--controller'], /HOST:PORT/, 1],
      [['worker', '--join', '-'], /no join string/, 1],
    ] as const) {
      const outcome = run(person, words);
      expect([outcome.code, outcome.said]).toEqual([code, expect.stringMatching(why)]);
      if (words[1] !== '--join' || words[2] !== '-') expect(readdirSync(person.home)).toEqual([]);
    }
    expect(run(person, ['worker', '--join', '-'], 'covey1.nonsense\n').said).toMatch(
      /join string[^]*could not join/,
    );
  });

  /** Root's installation, in a namespace with its own /etc, /opt, /var/lib and /usr/local. */
  describe.skipIf(!root)('as root', () => {
    test('makes a user and a service for the machine, and leaves nothing of it', async () => {
      const own = path.join(directory, 'root');
      const systemctl = makeSystemctl(own, true);
      for (const name of ['opt', 'var-lib', 'local']) mkdirSync(path.join(own, name), { mode: 0o755 });
      cpSync('/etc', path.join(own, 'etc'), { recursive: true, verbatimSymlinks: true });
      const before = readFileSync(path.join(own, 'etc', 'passwd'), 'utf8');
      const inside = path.join(own, 'inside.sh');
      writeFileSync(
        inside,
        `set -e
mount --bind '${own}/etc' /etc
mount --bind '${own}/opt' /opt
mount --bind '${own}/var-lib' /var/lib
mount --bind '${own}/local' /usr/local
exec sh '${place}/install.sh' "$@"
`,
      );
      const install = (words: readonly string[], input = ''): Outcome => {
        const { status, stderr } = spawnSync('unshare', ['--mount', 'sh', inside, ...words], {
          env: { PATH: `${systemctl.bin}:${process.env['PATH']}` },
          input,
          encoding: 'utf8',
          timeout: 90_000,
        });
        return { code: status, said: stderr };
      };
      const controller = await cluster.current.startController();
      const done = install(['worker', '--join', '-'], `${await controller.invite()}\n`);
      expect(done).toMatchObject({ code: 0, said: expect.stringContaining('joined.') as string });
      expect((await controller.client.call('nodes')).nodes).toHaveLength(1);
      const unit = readFileSync(path.join(own, 'etc/systemd/system/covey.service'), 'utf8');
      for (const line of [
        'ExecStart=/opt/covey/bin/covey worker --data /var/lib/covey',
        'User=covey',
        'NoNewPrivileges=yes',
        'ReadWritePaths=/var/lib/covey',
        'WantedBy=multi-user.target',
      ]) {
        expect(unit.split('\n')).toContain(line);
      }
      const passwd = readFileSync(path.join(own, 'etc', 'passwd'), 'utf8');
      expect(passwd).toMatch(/^covey:.*:\/var\/lib\/covey:\/usr\/sbin\/nologin$/m);
      const data = path.join(own, 'var-lib', 'covey');
      expect(statSync(data).mode & 0o777).toBe(0o700);
      expect(statSync(path.join(data, 'membership.json')).uid).toBe(statSync(data).uid);
      expect(statSync(data).uid).not.toBe(0);
      expect(readFileSync(systemctl.calls, 'utf8')).toContain('enable --now covey.service');

      expect(install(['uninstall', '--purge']).code).toBe(0);
      expect(readdirSync(path.join(own, 'opt'))).toEqual([]);
      expect(existsSync(data)).toBe(false);
      expect(existsSync(path.join(own, 'local', 'bin', 'covey'))).toBe(false);
      expect(existsSync(path.join(own, 'etc/systemd/system/covey.service'))).toBe(false);
      expect(readFileSync(path.join(own, 'etc', 'passwd'), 'utf8')).toBe(before);
      expect(existsSync('/opt/covey')).toBe(false);
    });
  });
});
