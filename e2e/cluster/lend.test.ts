import { copyFileSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { spawn, type ChildProcess } from 'node:child_process';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, describe, expect, test } from 'vitest';
import type { NodeView } from '../../src-main/shared/api/schema.ts';
import type { DeploymentView } from '../../src-main/shared/domain/deployment.ts';
import { predictText } from '../../src-worker/models/predictable.ts';
import type { SensorsFile } from '../../src-worker/lend/sensors/from-file.ts';
import { runCovey } from '../support/cli.ts';
import type { RunningController, RunningNode } from '../support/cluster.ts';
import { heavyModel, predictableModel } from '../support/models.ts';
import { complete, post, postLongCompletion, readStream } from '../support/openai-http.ts';
import { stillRuns, type ProcessInfo } from '../support/processes.ts';
import { load, loadReady, startSplitCluster, untilEligible, untilStatus } from '../support/split-cluster.ts';
import { useCluster } from '../support/use-cluster.ts';
import { waitFor } from '../support/wait.ts';

/**
 * Owners want their machines back: what the covey runs there goes within seconds, what is being answered is
 * answered to its end or told why not, and what can run elsewhere does.
 */
const cluster = useCluster();
const prompt = 'Once upon a time';
/** From the owner's first key press, or what else a rule names, until the covey has heard of it. */
const noticedMs = 5_000;

/** A machine whose sensors are what the test says. */
class Sensors {
  readonly file: string;
  #seen: SensorsFile = { idleMs: 3_600_000, onBattery: false, programs: [], fullScreen: false, celsius: 40 };

  constructor(name: string) {
    this.file = path.join(cluster.current.directory, `sensors-${name}.json`);
    this.see({});
  }

  see(change: SensorsFile): void {
    this.#seen = { ...this.#seen, ...change };
    writeFileSync(this.file, JSON.stringify(this.#seen));
  }

  get options() {
    return { api: '127.0.0.1:0', env: { COVEY_LEND_SENSORS: this.file } };
  }
}

async function nodeOf(controller: RunningController, name: string): Promise<NodeView> {
  return controller.client.call('node', { params: { node: name } });
}
async function untilPaused(controller: RunningController, name: string): Promise<NodeView> {
  return waitFor(
    `${name} to give way`,
    async () => {
      const view = await nodeOf(controller, name);
      return view.status === 'paused' && !view.eligible && view;
    },
    noticedMs,
  );
}
const rules = (node: RunningNode, lend: object) => node.client.call('setSettings', { body: { lend } });
const messages = async ({ client }: RunningController): Promise<string[]> => {
  const { events } = await client.call('eventHistory', { query: { limit: '200' } });
  return events.map(({ message }) => message);
};

describe('a person comes back to a machine', () => {
  test('what it served is served elsewhere, and no request is lost', async () => {
    const sensors = { anna: new Sensors('anna'), ben: new Sensors('ben') };
    const { controller, anna, ben } = await startSplitCluster(cluster.current, {
      anna: sensors.anna.options,
      ben: sensors.ben.options,
    });
    await rules(anna, { idleMinutes: 1 });
    await rules(ben, { idleMinutes: 1 });
    const { id, model } = await controller.client.call('load', { body: { model: await predictableModel() } });
    const before = await untilStatus(controller, id, 'ready');
    const home = before.stages[0]?.nodeName === 'anna' ? 'anna' : 'ben';
    const [here, there] = home === 'anna' ? [anna, ben] : [ben, anna];
    const engines = here.engines();
    expect(engines).toHaveLength(1);

    // A client that asks again when it is told to.
    let stop = false;
    const answered: string[] = [];
    const refusals: number[] = [];
    const asking = (async () => {
      while (!stop) {
        const answer = await post(controller.api, '/v1/completions', {
          model,
          prompt,
          max_tokens: 40,
          temperature: 0,
        }).done;
        if (answer.status === 200) {
          answered.push((JSON.parse(answer.body) as { choices: { text: string }[] }).choices[0]?.text ?? '');
        } else {
          refusals.push(answer.status);
          await delay(100);
        }
        if (answer.cut) refusals.push(-1);
      }
    })();

    const cameAt = Date.now();
    sensors[home].see({ idleMs: 0 });
    const paused = await untilPaused(controller, home);
    expect(paused.lend?.heldBackBy.map(({ rule }) => rule)).toEqual(['idle']);
    await waitFor('its engine to end', () => engines.every((engine) => !stillRuns(engine)), noticedMs);
    const clearedMs = Date.now() - cameAt;
    const after = await waitFor(
      'it to be served elsewhere',
      async () => {
        const view = await controller.client.call('deployment', { params: { id } });
        return view.status === 'ready' && view.epoch > before.epoch && view;
      },
      30_000,
    );
    expect(after.stages.map(({ nodeName }) => nodeName)).toEqual([home === 'anna' ? 'ben' : 'anna']);
    expect(there.engines()).toHaveLength(1);
    expect(after.failures).toEqual([]);
    const enough = answered.length + 3;
    await waitFor('the client to be answered there', () => answered.length >= enough, 10_000);
    stop = true;
    await asking;
    expect(new Set(answered)).toEqual(new Set([predictText(prompt, 40)]));
    expect(refusals.filter((status) => status !== 503)).toEqual([]);
    expect(clearedMs).toBeLessThan(noticedMs + 3_000);

    expect((await here.client.call('self')).lend?.lending).toBe(false);
    const said = await messages(controller);
    expect(said.some((text) => text.startsWith(`${home} gives way: Somebody uses it`))).toBe(true);
    expect(said.some((text) => /has given way within \d+\.\d s/.test(text))).toBe(true);

    // The person leaves: the machine is lent again.
    sensors[home].see({ idleMs: 61_000 });
    await untilEligible(controller, 2, 10_000);
  });

  test('a machine that is not lent when it starts is given nothing', async () => {
    const sensors = new Sensors('ben');
    const { controller, ben } = await startSplitCluster(cluster.current, { ben: sensors.options });
    await rules(ben, { idleMinutes: 5 });
    sensors.see({ idleMs: 0 });
    await untilPaused(controller, 'ben');
    await ben.stop();
    const again = await cluster.current.startWorker({
      name: 'ben',
      dataDirectory: ben.dataDirectory,
      ...sensors.options,
    });
    const node = await waitFor(
      'ben to be back',
      async () => {
        const view = await nodeOf(controller, 'ben');
        return view.connected && view;
      },
      15_000,
    );
    expect(node).toMatchObject({ status: 'paused', eligible: false });
    await expect(load(controller, await predictableModel())).rejects.toMatchObject({
      code: 'placement_refused',
      message: expect.stringMatching(/ben.* is not lent now/),
    });
    expect(again.engines()).toEqual([]);
  });
});

describe('half a minute', () => {
  let program: ChildProcess | null = null;
  afterEach(() => program?.kill('SIGKILL'));

  // Both in one, as both take that long.
  test('is what an answer has on battery, and what a machine waits for after the end of a named program', async () => {
    const sensors = new Sensors('ben');
    const { controller, anna, ben } = await startSplitCluster(cluster.current, { ben: sensors.options });
    const chloe = await cluster.current.startWorker({
      ...{ name: 'chloe', api: '127.0.0.1:0' },
      join: await controller.invite(),
    });
    await untilEligible(controller, 3);
    const deployment = await loadReady(controller, await heavyModel());
    const alone = await loadReady(controller, await predictableModel(), {
      ...{ nodes: ['chloe'], split: { chloe: 100 }, leader: 'chloe' },
    });

    const name = `covey-game-${process.pid}`;
    await rules(chloe, { giveWay: { programs: [name] } });
    const file = path.join(cluster.current.directory, name);
    copyFileSync('/bin/sleep', file);
    program = spawn(file, ['120'], { stdio: 'ignore' });
    const taken = await untilPaused(controller, 'chloe');
    expect(taken.lend?.heldBackBy).toEqual([{ rule: 'program', message: `${name} is running.` }]);
    await waitFor('its engine to end', () => chloe.engines().length === 0, noticedMs);
    program.kill('SIGKILL');
    const endedAt = Date.now();
    const back = untilReady(controller, alone).then((view) => ({ view, tookMs: Date.now() - endedAt }));
    back.catch(() => undefined);

    const engines: ProcessInfo[] = [...anna.engines(), ...ben.engines()];
    const [stage] = ben.engines('ggml-rpc-server');
    // Several at once take longer than the half minute.
    const streams = [1, 2, 3, 4].map(() => postLongCompletion(controller.api, deployment.model));
    await streams[0]?.received(2_000);
    const startedAt = Date.now();
    sensors.see({ onBattery: true });
    await untilPaused(controller, 'ben');
    await waitFor('the engine to step back', () => isNice(stage as ProcessInfo), noticedMs);
    const held = await controller.client.call('deployment', { params: { id: deployment.id } });
    expect(held).toMatchObject({ status: 'draining', reason: { code: 'node_gave_way' } });

    const answers = await Promise.all(streams.map(({ done }) => done));
    const tookMs = Date.now() - startedAt;
    for (const answer of answers) {
      expect(answer.cut).toBe(false);
      const { error, finished } = readStream(answer.body);
      if (!finished) expect(error).toMatchObject({ code: 'node_gave_way' });
    }
    expect(answers.some((answer) => readStream(answer.body).error !== null)).toBe(true);
    expect(tookMs).toBeGreaterThan(28_000);
    expect(tookMs).toBeLessThan(40_000);
    await waitFor('the engines to end', () => engines.every((engine) => !stillRuns(engine)), 10_000);
    const waiting = await waitFor(
      'it to say what it waits for',
      async () => {
        const view = await controller.client.call('deployment', { params: { id: deployment.id } });
        return view.reason?.code === 'placement_refused' && view;
      },
      5_000,
    );
    expect(waiting).toMatchObject({ status: 'waiting', failures: [] });
    expect(waiting.reason?.message).toMatch(/ben.* is not lent now/);

    const after = await back;
    expect(after.tookMs).toBeGreaterThan(25_000);
    expect(after.view.failures).toEqual([]);
    expect(await complete(controller.api, alone.model, prompt, 40)).toBe(predictText(prompt, 40));

    // Its owner allows it: it loads again by itself.
    await rules(ben, { giveWay: { onBattery: false } });
    await untilStatus(controller, deployment.id, 'ready');
    await complete(controller.api, deployment.model, 'once', 4);
  });
});

describe('a schedule', () => {
  test('that ends takes the machine, at once; switching lending off and on does too', async () => {
    const { controller, ben } = await startSplitCluster(cluster.current, { ben: { api: '127.0.0.1:0' } });
    const before = await loadReady(controller, await predictableModel());
    const today = new Date().getDay();
    await rules(ben, { schedule: [{ days: [(today + 3) % 7], from: '08:00', to: '09:00' }] });
    const paused = await untilPaused(controller, 'ben');
    expect(paused.lend?.heldBackBy.map(({ rule }) => rule)).toEqual(['schedule']);
    await waitFor('its engine to end', () => ben.engines().length === 0, noticedMs);
    await rules(ben, { schedule: null });
    const between = await untilReady(controller, before);

    const off = await runCovey(ben, ['lend', 'off']);
    expect(off).toMatchObject({ code: 0, stdout: expect.stringContaining('is not lent any more') });
    await untilPaused(controller, 'ben');
    await waitFor('its engine to end', () => ben.engines().length === 0, noticedMs);
    expect((await runCovey(ben, ['lend', 'on'])).stdout).toBe('This machine is lent.\n');
    await untilReady(controller, between);
  });
});

describe('a limit of the memory', () => {
  test('that a load has broken when it is there ends it, by name, and it loads when there is room', async () => {
    const api = { api: '127.0.0.1:0' };
    const { controller, anna, ben } = await startSplitCluster(cluster.current, { anna: api, ben: api });
    // Some 45 MB of weights go to ben, slowly enough to be lent less meanwhile.
    await rules(anna, { limits: { uploadBytesPerS: 8_000_000 } });
    const { id } = await load(controller, await heavyModel());
    const view = () => controller.client.call('deployment', { params: { id } });
    await waitFor('the weights to go', async () => (await view()).stages[0]?.phase === 'loading', 20_000);
    await rules(ben, { limits: { ramBytes: 40_000_000 } });
    const failed = await untilStatus(controller, id, 'failed', 20_000);
    const why = /the engines here take (?:3[89]|4[0-8]) MiB of memory, but this machine lends 39 MiB/;
    expect(failed.reason).toMatchObject({
      code: 'engine_out_of_memory',
      message: expect.stringMatching(why) as string,
    });
    expect((await messages(controller)).some((text) => why.test(text))).toBe(true);
    await waitFor('its engines to end', () => ben.engines().length === 0, noticedMs);
    await rules(anna, { limits: { uploadBytesPerS: null } });
    await rules(ben, { limits: { ramBytes: null } });
    await controller.client.call('retry', { params: { id } });
    await untilStatus(controller, id, 'ready');
  });
});

describe('a limit of the upload', () => {
  test('holds while weights go to another machine', async () => {
    const { controller, anna } = await startSplitCluster(cluster.current, { anna: { api: '127.0.0.1:0' } });
    const model = await heavyModel();
    const loadMs = async (): Promise<number> => {
      const startedAt = Date.now();
      const { id } = await loadReady(controller, model);
      const tookMs = Date.now() - startedAt;
      await controller.client.call('unload', { params: { id } });
      await waitFor(
        'it to be unloaded',
        async () => (await controller.client.call('deployments')).deployments.length === 0,
        20_000,
      );
      return tookMs;
    };
    await rules(anna, { limits: { uploadBytesPerS: 8_000_000 } });
    // Some 45 MB of weights go to ben: more than five seconds; without the limit it is less than one, and a slow machine.
    const limitedMs = await loadMs();
    expect(limitedMs).toBeGreaterThan(5_000);
    await rules(anna, { limits: { uploadBytesPerS: null } });
    expect(await loadMs()).toBeLessThan(limitedMs);
  });
});

async function untilReady(controller: RunningController, before: DeploymentView): Promise<DeploymentView> {
  return waitFor(
    'it to be loaded again',
    async () => {
      const view = await controller.client.call('deployment', { params: { id: before.id } });
      return view.status === 'ready' && view.epoch > before.epoch && view;
    },
    60_000,
  );
}

/** Every thread of it has the lowest priority (proc_pid_stat(5), field 19). */
function isNice({ pid }: ProcessInfo): boolean {
  return readdirSync(`/proc/${pid}/task`).every((thread) => {
    const stat = readFileSync(`/proc/${pid}/task/${thread}/stat`, 'latin1');
    return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[16]) === 19;
  });
}
