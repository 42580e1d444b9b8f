import { expect, test } from 'vitest';
import { processIo } from './process-io.ts';

test('a Ctrl-C that arrives twice, from the terminal and passed on by the launcher, is one', async () => {
  let heard = 0;
  const remove = processIo(async () => undefined).onInterrupt(() => (heard += 1));
  process.emit('SIGINT');
  process.emit('SIGINT');
  expect(heard).toBe(1);
  await new Promise((resolve) => setTimeout(resolve, 250));
  process.emit('SIGTERM');
  expect(heard).toBe(2);
  remove();
  expect(process.listenerCount('SIGTERM')).toBe(0);
});
