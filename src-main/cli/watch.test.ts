import { expect, test } from 'vitest';
import { CoveyError } from '#shared/errors.ts';
import { scriptedIo } from '../../e2e/support/cli-io.ts';
import { useCovey } from '../../e2e/support/use-covey.ts';
import { exampleStatus } from '../../e2e/support/views.ts';

const { covey } = useCovey();

test('--watch prints again what has changed, until Ctrl-C, and waits for a controller that is away', async () => {
  const io = scriptedIo();
  let calls = 0;
  const { code, stdout } = await covey(
    'status --watch --json',
    {
      status: () => {
        calls += 1;
        if (calls === 3) throw new CoveyError('shutting_down', 'The controller ends.');
        if (calls === 5) io.interrupt();
        return { ...exampleStatus, requestsRunning: calls < 3 ? 1 : 2 };
      },
    },
    io,
  );
  expect(code).toBe(0);
  const lines = stdout
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>);
  expect(lines.map((line) => line['requestsRunning'] ?? 'away')).toEqual([1, 'away', 2]);
});

test('--watch draws the screen anew on a terminal', async () => {
  const io = scriptedIo({ outIsTty: true });
  let calls = 0;
  const { stdout } = await covey(
    'nodes --watch',
    {
      nodes: () => {
        calls += 1;
        if (calls === 2) io.interrupt();
        return { nodes: [] };
      },
    },
    io,
  );
  expect(stdout.startsWith('\u001b[H\u001b[2JNo machine has joined yet.')).toBe(true);
});

test('a controller that never answered is an error at once', async () => {
  const { code } = await covey('status --watch', {
    status: () => {
      throw new CoveyError('shutting_down', 'The controller ends.');
    },
  });
  expect(code).toBe(1);
});
