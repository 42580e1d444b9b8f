import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { createApiClient } from '../../src-main/cli/api-client.ts';
import { generatePredictableModel, predictText } from '../../src-worker/models/predictable.ts';
import { checkout } from '../support/checkout.ts';
import { NodeEnded } from '../support/cluster.ts';
import { startProcess, type ManagedProcess } from '../support/managed-process.ts';
import { freePort, isListening } from '../support/ports.ts';
import { killTree, listProcesses, stillRuns, type ProcessInfo } from '../support/processes.ts';
import { waitFor } from '../support/wait.ts';

const prompt = 'Once upon a time';

describe('npm run up', () => {
  let directory: string;
  let model: string;
  let up: ManagedProcess | null = null;

  beforeAll(async () => {
    directory = mkdtempSync(path.join(os.tmpdir(), 'covey-up-'));
    model = path.join(directory, 'tale.gguf');
    await generatePredictableModel({ path: model });
  });
  afterEach(async (context) => {
    if (context.task.result?.state === 'fail') console.error(up?.output());
    if (up && !up.hasExited) await up.stop(30_000);
    for (const left of ours()) killTree(left.pid);
  });
  afterAll(() => rmSync(directory, { recursive: true, force: true }));

  /** Everything that has this test's directory in its arguments, and what hangs below that. */
  function ours(): ProcessInfo[] {
    const all = listProcesses();
    const direct = all.filter((one) => one.command.includes(directory) && one.pid !== up?.pid);
    const sessions = new Set(direct.map((one) => one.sessionId));
    return all.filter((one) => direct.includes(one) || sessions.has(one.sessionId));
  }

  async function startUp(
    port: number,
    command: readonly [string, ...string[]] = [process.execPath, path.join(checkout, 'scripts', 'up.mjs')],
  ): Promise<ManagedProcess> {
    up = startProcess({
      label: 'up',
      argv: [
        ...command,
        ...['--model', model, '--api', String(port), '--data', path.join(directory, 'data')],
      ],
      cwd: checkout,
    });
    const started = up;
    await waitFor(
      'the summary',
      () => {
        if (started.hasExited) throw new NodeEnded('npm run up', started.output());
        return started.stdout().includes('Ctrl-C ends all of it.');
      },
      90_000,
      50,
      NodeEnded,
    );
    return started;
  }

  /** Signed in with the link's code, as a browser that opens it. */
  async function lookInside(port: number, code = '') {
    const base = `http://127.0.0.1:${port}`;
    const visitor = createApiClient(base);
    const session = await visitor.call('redeem', { body: { code } });
    visitor.close();
    const client = createApiClient(base, { token: session.token });
    try {
      const [{ models }, { deployments }] = [await client.call('models'), await client.call('deployments')];
      return { session, models, deployments };
    } finally {
      client.close();
    }
  }

  async function expectNothingLeft(port: number, seen: readonly ProcessInfo[]): Promise<void> {
    expect(seen.length).toBeGreaterThanOrEqual(6);
    await waitFor(
      'everything to end',
      () => seen.filter(stillRuns).length === 0 && ours().length === 0,
      20_000,
    );
    expect(await isListening(port)).toBe(false);
  }

  it('serves a split model, says how to use it in 80 columns, and ends with Ctrl-C', async () => {
    const port = await freePort();
    const started = await startUp(port);
    const printed = started.stdout();
    for (const line of printed.split('\n')) {
      if (!line.includes(path.basename(directory))) expect(line.length, line).toBeLessThanOrEqual(80);
    }
    expect(printed).toMatch(/worker-1 \d+ of \d+ layers \+ worker-2 \d+ of \d+ layers/);

    const code = /^ {2}http:\/\/127\.0\.0\.1:\d+\/#code=(\S+)$/m.exec(printed)?.[1];
    const { session, models, deployments } = await lookInside(port, code);
    expect(session.role).toBe('admin');
    expect(models.map((one) => [one.name, one.nodeName])).toEqual([['tale', 'worker-1']]);
    expect(deployments.map((one) => [one.model, one.source])).toEqual([['tale', 'tale']]);

    const command = printed.slice(printed.indexOf('  curl'), printed.indexOf('See more'));
    const body = /-d '(.*?)'/s.exec(command)?.[1] ?? '';
    const answer = await fetch(`http://127.0.0.1:${port}/v1/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body,
    });
    const { choices } = (await answer.json()) as { choices: { text: string }[] };
    expect(choices[0]?.text).toBe(predictText(prompt, 64));

    const seen = ours();
    started.signal('SIGINT');
    expect((await started.exited).code).toBe(0);
    await expectNothingLeft(port, seen);
  });

  it('ends when npm, which started it, is killed outright', async () => {
    const port = await freePort();
    const started = await startUp(port, ['npm', 'run', 'up', '--']);
    const seen = ours();
    await started.crash();
    await expectNothingLeft(port, seen);
  });

  it('starts again with what is there, and leaves nothing when it is killed outright', async () => {
    const port = await freePort();
    const started = await startUp(port);
    const seen = ours();
    await started.crash();
    await expectNothingLeft(port, seen);
  });
});
