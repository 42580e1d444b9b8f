import { execFile, spawn } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { checkout, engineDirectory } from '../../e2e/support/checkout.ts';
import { startProcess } from '../../e2e/support/managed-process.ts';
import { listProcesses, type ProcessInfo } from '../../e2e/support/processes.ts';
import { waitFor } from '../../e2e/support/wait.ts';

interface Engine {
  readonly dir: string;
  readonly buildId: string;
  readonly cached: boolean;
}
interface EngineOptions {
  readonly root: string;
  readonly log: (text: string) => void;
  readonly cacheDir?: string;
  readonly workDir?: string;
}
interface Scripts {
  ensureEngine(options: EngineOptions): Promise<Engine>;
  acquireLock(
    file: string,
    options: { deadlineMs: number; onWait: (holder: string) => void },
  ): Promise<{ held: () => boolean; release: () => void }>;
  defaultCacheDirectory(): string;
  buildIdOf(inputs: unknown, rpc: string): string;
  readInputs(root: string): Promise<{ recipe: { hash: string; buildHash: string }; shipped: unknown[] }>;
  readExports(image: Buffer): { name: string; data: boolean }[];
}

const scriptUrl = (file: string): string => pathToFileURL(join(checkout, 'scripts', file)).href;
let scripts: Scripts;

/** A checkout of its own, so that `build/engine.json` of this one stays what it is; packages are shared. */
let root: string;
let temporary: string;

beforeAll(async () => {
  scripts = Object.assign(
    {},
    ...(await Promise.all(
      [
        'build-engine.mjs',
        'engine/lock.mjs',
        'engine/cache.mjs',
        'engine/inputs.mjs',
        'engine/pe-exports.mjs',
      ].map(async (file) => (await import(scriptUrl(file))) as object),
    )),
  ) as Scripts;
  temporary = mkdtempSync(join(tmpdir(), 'covey-build-'));
  root = join(temporary, 'checkout');
  mkdirSync(root);
  symlinkSync(join(checkout, 'node_modules'), join(root, 'node_modules'));
  cpSync(join(checkout, 'native'), join(root, 'native'), { recursive: true });
});
afterAll(() => {
  rmSync(temporary, { recursive: true, force: true });
});

/** The objects of the real cache: rebuilding from them compiles nothing, and everything else is really done. */
const workDir = (): string => join(scripts.defaultCacheDirectory(), 'work');

describe('the build of this checkout', () => {
  it('takes a whole entry from the cache in less than a second, and says where it is', async () => {
    const lines: string[] = [];
    const startedAt = performance.now();
    const engine = await scripts.ensureEngine({ root, log: (text) => lines.push(text) });
    expect(performance.now() - startedAt).toBeLessThan(1_000);
    expect(engine).toMatchObject({ dir: engineDirectory(), cached: true });
    expect(lines).toEqual([]);
    expect(JSON.parse(readFileSync(join(root, 'build', 'engine.json'), 'utf8'))).toEqual({
      dir: engine.dir,
      buildId: engine.buildId,
    });
    const manifest = JSON.parse(readFileSync(join(engine.dir, 'manifest.json'), 'utf8')) as {
      buildId: string;
      llamaTag: string;
      rpcProtocolVersion: string;
    };
    expect(engine.buildId).toBe(manifest.buildId);
    expect(engine.buildId).toMatch(
      new RegExp(`^${manifest.llamaTag}-rpc${manifest.rpcProtocolVersion}-[0-9a-f]{12}$`),
    );
  });
});

describe('a cache', () => {
  let cacheDir: string;
  beforeAll(async () => {
    cacheDir = join(temporary, 'cache');
    const lines: string[] = [];
    const engine = await scripts.ensureEngine({
      root,
      cacheDir,
      workDir: workDir(),
      log: (t) => lines.push(t),
    });
    expect(engine.cached).toBe(false);
    expect(lines.length).toBeLessThan(16);
  });

  const ensure = async (): Promise<{ engine: Engine; lines: string[] }> => {
    const lines: string[] = [];
    const engine = await scripts.ensureEngine({
      ...{ root, cacheDir, workDir: workDir() },
      log: (text) => lines.push(text),
    });
    return { engine, lines };
  };
  const entry = (): string => {
    const names = readdirSync(join(cacheDir, 'engines')).filter((name) =>
      /^v[^.]*\..*[0-9a-f]{16}$/.test(name),
    );
    expect(names).toHaveLength(1);
    return join(cacheDir, 'engines', names[0] ?? '');
  };

  it('made an entry that only this user can touch, and gives it out again', async () => {
    expect(statSync(join(cacheDir, 'engines')).mode & 0o777).toBe(0o700);
    expect(statSync(entry()).mode & 0o777).toBe(0o700);
    const { engine, lines } = await ensure();
    expect(engine).toEqual({ dir: entry(), buildId: engine.buildId, cached: true });
    expect(lines).toEqual([]);
  });

  it('checks contents again when files are not the very ones that it has checked', async () => {
    rmSync(`${entry()}.stamp`);
    expect((await ensure()).engine.cached).toBe(true);
    const now = new Date();
    utimesSync(join(entry(), 'LICENSES.txt'), now, now);
    expect((await ensure()).engine.cached).toBe(true);
  });

  const asRoot = process.getuid?.() === 0;
  const damages: [string, RegExp, (directory: string) => void][] = [
    ['a truncated file', /llama-server with 1000 bytes/, (d) => truncateSync(join(d, 'llama-server'), 1000)],
    [
      'a file with other content of the same size',
      /covey-launch with other content/,
      (d) => {
        const file = join(d, 'covey-launch');
        const content = readFileSync(file);
        content[content.length - 1] = (content.at(-1) ?? 0) ^ 1;
        writeFileSync(file, content);
      },
    ],
    ['a missing file', /lacks libggml-rpc\.so/, (d) => rmSync(join(d, 'libggml-rpc.so'))],
    [
      'a backend too many',
      /file too many: libggml-cpu-x\.so/,
      (d) => writeFileSync(join(d, 'libggml-cpu-x.so'), ''),
    ],
    ['a damaged manifest', /no readable manifest/, (d) => truncateSync(join(d, 'manifest.json'), 100)],
    [
      'the manifest of another build',
      /of another build/,
      (d) => {
        const file = join(d, 'manifest.json');
        writeFileSync(file, readFileSync(file, 'utf8').replace(/"buildId": "[^"]*"/, '"buildId": "v9-rpc9"'));
      },
    ],
    ['a folder that others can write', /can be written by others/, (d) => chmodSync(d, 0o777)],
    [
      'a file that others can write',
      /ggml-rpc-server, which can be written by others/,
      (d) => chmodSync(join(d, 'ggml-rpc-server'), 0o722),
    ],
    [
      'a link in place of a file',
      /LICENSES\.txt, which is not a file/,
      (d) => {
        renameSync(join(d, 'LICENSES.txt'), join(cacheDir, 'L'));
        symlinkSync(join(cacheDir, 'L'), join(d, 'LICENSES.txt'));
      },
    ],
  ];
  if (asRoot) {
    damages.push(
      ['a folder of another user', /belongs to user 12345/, (d) => chownSync(d, 12345, 12345)],
      [
        'a file of another user',
        /LICENSES\.txt, which belongs to user 12345/,
        (d) => chownSync(join(d, 'LICENSES.txt'), 12345, 12345),
      ],
    );
  }
  it.each(damages)('builds an entry with %s again and never uses it', async (_, reason, damage) => {
    const directory = entry();
    damage(directory);
    const { engine, lines } = await ensure();
    expect(engine).toMatchObject({ dir: directory, cached: false });
    expect(lines[0]).toMatch(reason);
    expect((await ensure()).engine.cached).toBe(true);
    expect(readdirSync(join(cacheDir, 'engines')).sort()).toEqual(
      [directory, `${directory}.stamp`].map((path) => path.slice(directory.lastIndexOf('/') + 1)),
    );
  });

  it('does not trust what lies in a folder that was open to others', async () => {
    chmodSync(join(cacheDir, 'engines'), 0o777);
    const { engine } = await ensure();
    expect(engine.cached).toBe(false);
    expect(statSync(join(cacheDir, 'engines')).mode & 0o777).toBe(0o700);
  });

  it.runIf(asRoot)('refuses a folder that belongs to somebody else', async () => {
    const other = join(temporary, 'other');
    mkdirSync(join(other, 'engines'), { recursive: true });
    chownSync(join(other, 'engines'), 12345, 12345);
    await expect(scripts.ensureEngine({ root, cacheDir: other, log: () => undefined })).rejects.toThrow(
      /belongs to user 12345.*COVEY_CACHE_DIR/,
    );
  });

  it('refuses a place where everybody could exchange it', async () => {
    const open = join(temporary, 'open');
    mkdirSync(open);
    chmodSync(open, 0o777);
    await expect(scripts.ensureEngine({ root, cacheDir: open, log: () => undefined })).rejects.toThrow(
      /written by everybody.*COVEY_CACHE_DIR/,
    );
  });

  it('lets one of several builders build, and the others take what it made', async () => {
    const shared = join(temporary, 'shared-cache');
    const code = `
      const { ensureEngine } = await import(${JSON.stringify(scriptUrl('build-engine.mjs'))});
      const engine = await ensureEngine({ root: ${JSON.stringify(root)}, log: () => {},
        cacheDir: ${JSON.stringify(shared)}, workDir: ${JSON.stringify(workDir())} });
      console.log(JSON.stringify(engine));`;
    const run = promisify(execFile);
    const engines = await Promise.all(
      [1, 2, 3].map(async () => {
        const { stdout } = await run(process.execPath, ['--input-type=module', '-e', code], {
          timeout: 300_000,
        });
        return JSON.parse(stdout) as Engine;
      }),
    );
    expect(new Set(engines.map((engine) => engine.dir)).size).toBe(1);
    expect(engines.filter((engine) => !engine.cached)).toHaveLength(1);
  });
});

describe('a build that is interrupted', () => {
  it.runIf(process.platform === 'linux')(
    'ends its compilers, gives back its lock and publishes nothing',
    async () => {
      const cacheDir = join(temporary, 'interrupted');
      const code = `
      const { ensureEngine } = await import(${JSON.stringify(scriptUrl('build-engine.mjs'))});
      await ensureEngine({ root: ${JSON.stringify(root)}, cacheDir: ${JSON.stringify(cacheDir)}, log: () => {} });`;
      const builder = startProcess({
        label: 'builder',
        argv: [process.execPath, '--input-type=module', '-e', code],
      });
      const compilers = (): ProcessInfo[] =>
        listProcesses().filter((info) => info.pid !== builder.pid && info.command.includes(cacheDir));
      try {
        await waitFor(
          'a compiler',
          () => compilers().some((info) => /cc1plus|clang/.test(info.command)),
          90_000,
        );
        builder.signal('SIGINT');
        expect(await builder.exited).toEqual({ code: 130, signal: null });
        await waitFor('the compilers to end', () => compilers().length === 0, 10_000);
        expect(readdirSync(join(cacheDir, 'work')).filter((name) => name.endsWith('.lock'))).toEqual([]);
        expect(readdirSync(join(cacheDir, 'engines'))).toEqual([]);
      } finally {
        await builder.stop();
      }
    },
  );
});

describe('the lock of a build', () => {
  let file: string;
  beforeEach(() => {
    file = join(temporary, 'lock');
  });
  afterEach(() => {
    rmSync(file, { force: true });
  });

  it('is waited for, with a deadline that names the holder', async () => {
    const lock = await scripts.acquireLock(file, { deadlineMs: 1_000, onWait: () => undefined });
    const waits: string[] = [];
    await expect(
      scripts.acquireLock(file, { deadlineMs: 300, onWait: (holder) => waits.push(holder) }),
    ).rejects.toThrow(`process ${process.pid}`);
    expect(waits).toHaveLength(1);
    expect(lock.held()).toBe(true);
    lock.release();
    const next = await scripts.acquireLock(file, { deadlineMs: 1_000, onWait: () => undefined });
    next.release();
    expect(existsSync(file)).toBe(false);
  });

  it('is taken over from a builder that was killed, and that one would notice', async () => {
    const first = await scripts.acquireLock(file, { deadlineMs: 1_000, onWait: () => undefined });
    const longAgo = new Date(Date.now() - 120_000);
    utimesSync(file, longAgo, longAgo);
    const second = await scripts.acquireLock(file, { deadlineMs: 1_000, onWait: () => undefined });
    expect(first.held()).toBe(false);
    first.release();
    expect(second.held()).toBe(true);
    second.release();
  });
});

describe('the build id', () => {
  it('changes with the way of building, not with comments, the launcher or line ends', async () => {
    const recipe = async (
      change: (directory: string) => void,
    ): Promise<{ hash: string; buildHash: string }> => {
      const other = join(temporary, 'other-checkout');
      rmSync(other, { recursive: true, force: true });
      mkdirSync(other);
      symlinkSync(join(checkout, 'node_modules'), join(other, 'node_modules'));
      cpSync(join(checkout, 'native'), join(other, 'native'), { recursive: true });
      change(join(other, 'native'));
      return (await scripts.readInputs(other)).recipe;
    };
    const edit = (file: string, change: (text: string) => string): void =>
      writeFileSync(file, change(readFileSync(file, 'utf8')));
    const upstream = (directory: string): string => join(directory, 'llama', 'cmake', 'upstream.cmake');
    const original = await recipe(() => undefined);
    expect(await recipe((d) => edit(upstream(d), (text) => text.replaceAll('\n', '\r\n')))).toEqual(original);

    const commented = await recipe((d) => edit(upstream(d), (text) => `# another word\n\n${text}`));
    expect(commented.buildHash).toBe(original.buildHash);
    expect(commented.hash).not.toBe(original.hash);

    const launcher = await recipe((d) => edit(join(d, 'launcher', 'launcher.c'), (text) => `${text}\n`));
    expect(launcher.buildHash).toBe(original.buildHash);
    expect(launcher.hash).not.toBe(original.hash);

    const other = await recipe((d) =>
      edit(upstream(d), (text) => text.replace('MTMD_VIDEO OFF', 'MTMD_VIDEO ON')),
    );
    expect(other.buildHash).not.toBe(original.buildHash);
  });

  it('changes with the RPC protocol', async () => {
    const inputs = await scripts.readInputs(checkout);
    expect(scripts.buildIdOf(inputs, '6.0.0')).not.toBe(scripts.buildIdOf(inputs, '6.0.1'));
  });
});

describe('a machine without tools', () => {
  it('is told what to install, in one message', async () => {
    const code = `
      const { ensureEngine } = await import(${JSON.stringify(scriptUrl('build-engine.mjs'))});
      await ensureEngine({ root: ${JSON.stringify(root)}, log: () => {}, cacheDir: ${JSON.stringify(join(temporary, 'none'))} })
        .catch((error) => console.log(error.message));`;
    const child = spawn(process.execPath, ['--input-type=module', '-e', code], {
      env: { PATH: join(temporary, 'nothing'), HOME: homedir() },
    });
    let output = '';
    child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
    await new Promise((resolve) => child.on('close', resolve));
    expect(output).toMatch(/CMake, a C\+\+ compiler with make, git, which this machine lacks/);
    if (existsSync('/etc/debian_version')) expect(output).toContain('apt-get install cmake g++ make git');
  });
});

describe('the exports of a Windows DLL', () => {
  it('are read as its names, functions apart from data', () => {
    // The one DLL that every checkout has, for whichever system: an add-on of a dependency.
    const dll = realpathSync(join(checkout, 'node_modules', 'better-sqlite3', 'prebuilds', 'win32-x64.node'));
    const exports = scripts.readExports(readFileSync(dll));
    expect(exports).toContainEqual({ name: 'napi_register_module_v1', data: false });
    expect(() => scripts.readExports(readFileSync(process.execPath))).toThrow(/not a Windows/);
  });
});
