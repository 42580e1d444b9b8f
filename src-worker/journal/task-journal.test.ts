import { appendFileSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { taskId, type JobId } from '#shared/lib/ids.ts';
import type { EndReport } from '../agent/tasks/state.ts';
import { collectingLogger } from '../runtime/fixtures.ts';
import { openTaskJournal } from './task-journal.ts';

let journal: string;
beforeEach(() => {
  journal = mkdtempSync(join(tmpdir(), 'covey-journal-'));
});
afterEach(() => rmSync(journal, { recursive: true, force: true }));

const end = (index: number, output = ''): EndReport => ({
  type: 'done',
  taskId: taskId('j-00000001' as JobId, index, 1),
  epoch: 2,
  result: { value: index, artifacts: [] },
  usage: { wallMs: 1, cpuMs: null, peakBytes: null, stagingMs: 0 },
  output,
});
const open = () => openTaskJournal(journal, collectingLogger().logger);
const path = (): string => join(journal, 'tasks.jsonl');

it('keeps what was not settled, in a file for nobody else', () => {
  const first = open();
  expect(first.kept).toEqual([]);
  first.write([end(0), end(1)], []);
  first.write([end(2)], [end(0).taskId]);
  expect(statSync(path()).mode & 0o777).toBe(0o600);
  expect(open().kept).toEqual([end(1), end(2)]);
});

it('skips lines that do not read', () => {
  open().write([end(0), end(1)], []);
  appendFileSync(
    path(),
    '{"end":{"type":"done"}}\n{"end":{"type":"started","taskId":1}}\nnull\n{"settled":"x"}\n{"end":{"ty',
  );
  expect(open().kept).toEqual([end(0), end(1)]);
  writeFileSync(path(), '\0\0\0');
  expect(open().kept).toEqual([]);
});

it('does not grow for ever', () => {
  const opened = open();
  for (let index = 0; index < 40; index += 1) {
    opened.write([end(index, 'x'.repeat(60_000))], []);
    opened.write([], [end(index).taskId]);
  }
  expect(statSync(path()).size).toBeLessThan(2_000_000);
  expect(open().kept).toEqual([]);
  expect(readFileSync(path(), 'utf8')).toBe('');
});

it('complains once when it cannot be written, and goes on', () => {
  writeFileSync(join(journal, 'file'), '');
  const { logger, lines } = collectingLogger();
  const opened = openTaskJournal(join(journal, 'file', 'below'), logger);
  opened.write([end(0)], []);
  opened.write([end(1)], []);
  expect(lines).toHaveLength(1);
});
