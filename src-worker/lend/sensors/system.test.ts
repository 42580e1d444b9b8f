import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { realSystem } from './system.ts';

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'covey-sensors-'));
});
afterEach(() => rmSync(directory, { recursive: true }));

describe('the real machine', () => {
  test('reads the beginning of a file, and nothing where there is none', async () => {
    const file = join(directory, 'large');
    writeFileSync(file, 'x'.repeat(100_000));
    expect((await realSystem.readText(file))?.length).toBe(65_536);
    expect(await realSystem.readText(join(directory, 'none'))).toBeNull();
    expect(await realSystem.readText(directory)).toBeNull();
    expect(await realSystem.list(directory)).toEqual(['large']);
    expect(await realSystem.list(join(directory, 'none'))).toEqual([]);
  });

  test('watches a program by its lines until it is ended, once', async () => {
    const lines: string[] = [];
    const script =
      "console.log('one'); console.log(Object.keys(process.env).includes('COVEY_TEST_SECRET')); setInterval(() => {}, 1e6)";
    process.env['COVEY_TEST_SECRET'] = 'x';
    try {
      const reason = await new Promise<string>((resolve) => {
        const watched = realSystem.watch(process.execPath, ['-e', script], {
          line(line) {
            lines.push(line);
            if (lines.length === 2) watched.end();
          },
          end: resolve,
        });
      });
      expect(reason).toMatch(/ended/);
      expect(lines).toEqual(['one', 'false']);
    } finally {
      delete process.env['COVEY_TEST_SECRET'];
    }
  });

  test('says when a program cannot be started', async () => {
    const reason = await new Promise<string>((resolve) => {
      realSystem.watch(join(directory, 'none'), [], { line: () => undefined, end: resolve });
    });
    expect(reason).toMatch(/ENOENT/);
  });
});
