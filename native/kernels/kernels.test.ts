import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { describe, expect, it } from 'vitest';
import { checkout } from '../../e2e/support/checkout.ts';

/**
 * The kernels' own tests (native/kernels/test), built with warnings as errors: as they are, with sanitizers, and for
 * ARM by an emulator.
 */
interface Script {
  readonly buildKernels: (variant: string) => Promise<string>;
  readonly variantPrograms: Readonly<Record<string, readonly string[]>>;
}
const script = (await import(
  pathToFileURL(join(checkout, 'scripts', 'lib', 'kernels.mjs')).href
)) as unknown as Script;

function lacking(variant: string): string | undefined {
  const directories = (process.env['PATH'] ?? '').split(delimiter);
  return script.variantPrograms[variant]?.find(
    (program) => !directories.some((directory) => existsSync(join(directory, program))),
  );
}

describe.runIf(process.platform === 'linux')('the kernels', () => {
  for (const variant of ['native', 'sanitized', 'arm64']) {
    it(`pass their tests: ${variant}`, { timeout: 600_000 }, async (context) => {
      const program = lacking(variant);
      if (program !== undefined) context.skip(`this machine has no ${program}`);
      const directory = await script.buildKernels(variant);
      // What takes longest under an emulator has nothing of a processor's own in it: how work is divided, also among
      // threads. Those of one run are in other cases too.
      const left = variant === 'arm64' ? ['-E', '^(divisions|large-input|threads)$'] : [];
      const tests = spawnSync('ctest', ['--output-on-failure', '--no-tests=error', '-j', '2', ...left], {
        ...{ cwd: directory, encoding: 'utf8', timeout: 500_000 },
      });
      expect(tests.stdout + tests.stderr).toMatch(/100% tests passed, 0 tests failed out of \d\d/);
      expect(tests.status).toBe(0);
    });
  }

  it(
    'give away one name: whatever else is in the module is nobody else’s',
    { timeout: 300_000 },
    async () => {
      const module = join(await script.buildKernels('native'), 'bin', 'covey-kernels.node');
      const names = spawnSync('nm', ['-D', '--defined-only', '--format=posix', module], { encoding: 'utf8' });
      expect(names.stdout.trim().split('\n')).toEqual([expect.stringMatching(/^napi_register_module_v1 T /)]);
    },
  );

  it('are not compiled where additions may be put in another order', () => {
    const kernels = join(checkout, 'native', 'kernels');
    const compile = (...options: string[]) =>
      spawnSync(
        'cc',
        [...options, '-fsyntax-only', '-I', join(kernels, 'include'), join(kernels, 'src', 'partial.c')],
        { encoding: 'utf8' },
      );
    for (const option of ['-ffast-math', '-Ofast', '-ffinite-math-only']) {
      expect(compile(option).stderr).toContain('no -ffast-math');
      // As the build has it, whatever came from the environment before.
      expect(compile(option, '-fno-fast-math')).toMatchObject({ status: 0, stderr: '' });
    }
  });
});
