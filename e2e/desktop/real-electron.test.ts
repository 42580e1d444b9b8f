import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { _electron as electron } from 'playwright-core';
import { expect, test } from 'vitest';
import { checkout } from '../support/checkout.ts';

/** Electron's own program: of the package, once its download has run, or where this says. */
function electronProgram(): string | null {
  const named = process.env['COVEY_ELECTRON'];
  if (named !== undefined) return named;
  const place = path.join(checkout, 'node_modules', 'electron');
  const file = path.join(place, 'path.txt');
  if (!existsSync(file)) return null;
  const program = path.join(place, 'dist', readFileSync(file, 'utf8').trim());
  return existsSync(program) ? program : null;
}

const program = electronProgram();

/** What the stand-in cannot show: that Electron itself starts the app, its sandbox, its utility processes. */
test.skipIf(program === null)('the app in Electron itself (set COVEY_ELECTRON to its program)', async () => {
  const data = mkdtempSync(path.join(os.tmpdir(), 'covey-electron-'));
  const app = await electron.launch({
    executablePath: program ?? '',
    args: [
      ...(process.getuid?.() === 0 ? ['--no-sandbox'] : []),
      checkout,
      `--data=${data}`,
      ...['--api=127.0.0.1:0', '--cluster=127.0.0.1:0', '--no-discovery'],
    ],
    timeout: 60_000,
  });
  try {
    const page = await app.firstWindow({ timeout: 30_000 });
    await page.getByRole('heading', { name: 'Use this computer for' }).waitFor({ timeout: 20_000 });
    expect(await page.evaluate('typeof require + typeof process')).toBe('undefinedundefined');
    await page.getByRole('button', { name: /^Controller, and lend/ }).click();
    await page.waitForURL(/:\d+\/(#.*)?$/, { timeout: 30_000 });
    const children = await app.evaluate(({ app: running }) =>
      running
        .getAppMetrics()
        .filter(({ type }) => type === 'Utility')
        .map(({ name }) => name),
    );
    expect(children.join()).toContain('Covey transport');
  } finally {
    await app.close();
    rmSync(data, { recursive: true, force: true, maxRetries: 5 });
  }
});
