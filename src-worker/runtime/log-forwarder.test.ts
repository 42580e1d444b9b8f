import { expect, it } from 'vitest';
import { collectingLogger } from './fixtures.ts';
import { createLogForwarder } from './log-forwarder.ts';

it('copies lines from info up, with their fields, and names the engine as source', () => {
  const { logger: base, lines } = collectingLogger();
  const forwarder = createLogForwarder(base, () => 1_000);
  forwarder.logger.debug('detail');
  forwarder.logger.child({ engine: 'd-1.1.0' }).warn('slow', { ms: 7 });
  expect(lines).toHaveLength(2);
  expect(forwarder.take()).toEqual({
    type: 'log',
    dropped: 0,
    lines: [{ at: 1_000, level: 'warn', source: 'engine d-1.1.0', message: 'slow (ms=7)' }],
  });
  expect(forwarder.take()).toBeNull();
});

it('lets a burst and then fifty lines a second through, and counts the rest', () => {
  let now = 0;
  const forwarder = createLogForwarder(collectingLogger().logger, () => now);
  for (let line = 0; line < 300; line += 1) forwarder.logger.info(`line ${line}`);
  expect(forwarder.take()).toMatchObject({ dropped: 100, lines: { length: 200 } });
  now += 1_000;
  for (let line = 0; line < 300; line += 1) forwarder.logger.info(`line ${line}`);
  expect(forwarder.take()).toMatchObject({ dropped: 250, lines: { length: 50 } });
});

it('keeps the newest lines while nobody takes them, each of bounded length', () => {
  let now = 0;
  const forwarder = createLogForwarder(collectingLogger().logger, () => now);
  for (let line = 0; line < 1_000; line += 1) {
    now += 1_000;
    forwarder.logger.info(`${line} ${'x'.repeat(5_000)}`);
  }
  const frame = forwarder.take();
  expect(frame).toMatchObject({ dropped: 800, lines: { length: 200 } });
  expect(frame?.lines.at(-1)?.message.startsWith('999 ')).toBe(true);
  expect(frame?.lines.at(-1)?.message).toHaveLength(2_048);
});
