import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { z } from 'zod';
import type { JobView } from '#shared/domain/job.ts';
import type { gangJobSchema } from '#shared/domain/job-spec.ts';
import { readJobDocument } from '../../src-main/cli/job-document.ts';
import { probeSandbox } from '../../src-worker/engines/task-runner/sandbox/probe-sandbox.ts';
import { checkout } from '../support/checkout.ts';
import { mpiMissing, mpiProgram, pythonMissing, torchMissing } from '../support/gang-programs.ts';
import { startJobMachines, type JobMachines } from '../support/job-machines.ts';
import { createNetwork, netnsMissing, removeLeftoverNetworks, type Network } from '../support/netns.ts';
import { useCluster } from '../support/use-cluster.ts';
import { waitFor } from '../support/wait.ts';

/** Ranks of one program that start together, talk to one another and end together, over two real workers. */
const cluster = useCluster();
const gangPorts = { from: 21_000, to: 21_399 };
const unconfined = (await probeSandbox()).problem;

/** Every rank listens on its own port, connects to all others, and adds up what they say. */
const rendezvous = `
import os, socket, threading, time
rank, size = int(os.environ['COVEY_RANK']), int(os.environ['COVEY_WORLD_SIZE'])
hosts = os.environ['COVEY_HOSTS'].split(',')
ports = [int(own.split(',')[0]) for own in os.environ['COVEY_ALL_PORTS'].split(';')]
assert os.environ['COVEY_PORTS'].split(',')[0] == str(ports[rank])
assert (os.environ['MASTER_ADDR'], os.environ['MASTER_PORT']) == (hosts[0], str(ports[0]))
server = socket.create_server((hosts[rank], ports[rank]), backlog=size)
heard = {}
def listen():
    while len(heard) < size - 1:
        peer, _ = server.accept()
        other, value = peer.makefile().readline().split()
        heard[int(other)] = int(value)
        peer.close()
listener = threading.Thread(target=listen)
listener.start()
for other in range(size):
    if other == rank: continue
    for attempt in range(100):
        try:
            with socket.create_connection((hosts[other], ports[other]), timeout=5) as peer:
                peer.sendall(f'{rank} {(rank + 1) ** 2}\\n'.encode())
            break
        except ConnectionRefusedError: time.sleep(0.1)
listener.join(20)
total = sum(heard.values()) + (rank + 1) ** 2
print('rank', rank, 'of', size, 'local', os.environ['LOCAL_RANK'], 'of', os.environ['LOCAL_WORLD_SIZE'], 'total', total)
open(os.environ['COVEY_OUTPUT'] + '/total', 'w').write(str(total))
`;
const python = ['/usr/bin/python3'];

function submitGang(
  machines: JobMachines,
  spec: Omit<z.input<typeof gangJobSchema>, 'kind'>,
): Promise<JobView> {
  return machines.submit({ network: 'lan', ...spec, kind: 'gang' });
}

async function checkRendezvous(machines: JobMachines, addresses: readonly string[]): Promise<void> {
  const { id } = await submitGang(machines, {
    ranks: 4,
    perNode: 2,
    script: rendezvous,
    interpreter: python,
    outputs: [{ path: 'total', optional: false }],
  });
  const view = await machines.finished(id);
  expect(view).toMatchObject({ status: 'done', error: null, units: { unit: 'ranks', total: 4, done: 4 } });
  expect(view.result?.artifacts.map(({ name }) => name)).toEqual([
    '0/total',
    '1/total',
    '2/total',
    '3/total',
  ]);
  for (const artifact of view.result?.artifacts ?? []) {
    expect(await machines.content(artifact.id)).toBe('30');
  }
  for (const rank of [0, 1, 2, 3]) {
    expect(await machines.log(id, rank)).toBe(`rank ${rank} of 4 local ${rank % 2} of 2 total 30\n`);
  }
  expect(view.shares.filter(({ donePercent }) => donePercent === 50)).toHaveLength(2);
  const said = await submitGang(machines, {
    ranks: 2,
    perNode: 1,
    command: ['/bin/sh', '-c', 'echo $COVEY_HOSTS'],
  });
  await machines.finished(said.id);
  expect((await machines.log(said.id, 1)).trim().split(',').sort()).toEqual([...addresses].sort());
}

/** Programs of tasks, in or on their way into a sandbox. */
const programs = (machines: JobMachines): string[] =>
  machines.names.flatMap((name) =>
    machines
      .worker(name)
      .processes()
      .map(({ command }) => command)
      .filter((command) => /bwrap|\/bin\/sh|python3/.test(command)),
  );

const nothingRuns = (machines: JobMachines): Promise<true> =>
  waitFor(
    'all programs to be gone',
    () => {
      const left = programs(machines);
      if (left.length > 0) throw new Error(left.join('; '));
      return true as const;
    },
    15_000,
  );

const running = (machines: JobMachines, id: string, start = 1): Promise<unknown> =>
  waitFor(
    'every rank to run',
    async () => {
      const { units } = await machines.view(id);
      for (let rank = 0; rank < (units.total ?? NaN); rank += 1) {
        const output = await machines.log(id, rank);
        if (!output.includes(`start ${start}`)) throw new Error(`rank ${rank}: ${output}`);
      }
      return true;
    },
    40_000,
    100,
  );

describe.skipIf(unconfined !== null)(`gangs${unconfined === null ? '' : ` (${unconfined})`}`, () => {
  let machines: JobMachines;
  beforeEach(async () => {
    machines = await startJobMachines(cluster.current, ['anna', 'ben'], {
      network: { interface: 'lo', ports: gangPorts },
      // Its owner changes rules there.
      worker: (name) => (name === 'ben' ? { api: '127.0.0.1:0' } : {}),
    });
  });

  test.skipIf(pythonMissing !== null)(
    `ranks find one another over TCP, and each has its log and its outputs${pythonMissing === null ? '' : ` (${pythonMissing})`}`,
    async () => {
      await checkRendezvous(machines, ['127.0.0.1', '127.0.0.1']);
    },
  );

  test('ports are of the range that the owners have set, free, and as many as were asked for', async () => {
    const { id } = await submitGang(machines, {
      ranks: 2,
      perNode: 1,
      ports: 3,
      command: ['/bin/sh', '-c', 'echo "$COVEY_ALL_PORTS"'],
    });
    expect(await machines.finished(id)).toMatchObject({ status: 'done' });
    const text = await machines.log(id, 0);
    expect(await machines.log(id, 1)).toBe(text);
    const ports = text
      .trim()
      .split(';')
      .flatMap((rank) => rank.split(',').map(Number));
    expect(new Set(ports).size).toBe(6);
    for (const port of ports) {
      expect(port).toBeGreaterThanOrEqual(gangPorts.from);
      expect(port).toBeLessThanOrEqual(gangPorts.to);
    }
  });

  test('a gang for which there are too few machines waits with nothing started, until there are enough', async () => {
    const { id } = await submitGang(machines, {
      ranks: 3,
      perNode: 1,
      command: ['/bin/sh', '-c', 'echo start $COVEY_START rank $COVEY_RANK'],
    });
    // What comes later and fits is done meanwhile: so it was looked at, and not for want of time.
    const other = await submitGang(machines, { ranks: 2, perNode: 1, command: ['true'] });
    expect(await machines.finished(other.id)).toMatchObject({ status: 'done' });
    const waiting = await machines.view(id);
    expect(waiting).toMatchObject({
      status: 'queued',
      startedAt: null,
      partitions: { waiting: 3, running: 0 },
    });
    await machines.add('cleo');
    expect(await machines.finished(id)).toMatchObject({ status: 'done', partitions: { done: 3 } });
    expect(await machines.log(id, 2)).toBe('start 1 rank 2\n');
  });

  test('one rank that fails ends all; with a restart all begin again', async () => {
    const script = `echo "start $COVEY_START rank $COVEY_RANK"
      if [ "$COVEY_RANK" = 1 ] && [ "$COVEY_START" -le "$WRONG" ]; then sleep 1; exit 7; fi
      if [ "$COVEY_START" -le "$WRONG" ]; then sleep 600; fi`;
    const once = await submitGang(machines, { ranks: 3, script, env: { WRONG: '1' } });
    const failed = await machines.finished(once.id);
    expect(failed).toMatchObject({ status: 'failed', partitions: { done: 0 } });
    expect(failed.error?.message).toMatch(/^rank 1 on (anna|ben): the program ended with exit code 7$/);
    const ranks = await machines.partitions(once.id);
    expect(ranks.map(({ status, error }) => [status, error?.message])).toEqual([
      ['cancelled', 'It ended with the gang.'],
      ['failed', 'the program ended with exit code 7'],
      ['cancelled', 'It ended with the gang.'],
    ]);
    await nothingRuns(machines);
    expect(await machines.log(once.id, 1)).toBe('start 1 rank 1\n');
    expect(await machines.log(once.id, 0)).toBe('start 1 rank 0\n');

    const twice = await submitGang(machines, { ranks: 3, script, env: { WRONG: '1' }, restarts: 1 });
    expect(await machines.finished(twice.id)).toMatchObject({ status: 'done', partitions: { done: 3 } });
    expect(await machines.log(twice.id, 0)).toBe('start 2 rank 0\n');

    const thrice = await submitGang(machines, { ranks: 3, script, env: { WRONG: '9' }, restarts: 1 });
    expect(await machines.finished(thrice.id)).toMatchObject({ status: 'failed' });
    expect(await machines.log(thrice.id, 1)).toBe('start 2 rank 1\n');
    await nothingRuns(machines);
  });

  test('a machine whose interface for programs is away takes no rank, says so, and takes some once it is back', async () => {
    const { client } = machines.worker('ben');
    const setTo = (name: string) =>
      client.call('setSettings', { body: { lend: { network: { interface: name, ports: gangPorts } } } });
    expect((await setTo('nope0')).problems.join()).toContain('no interface nope0 has an address');
    const { id } = await submitGang(machines, { ranks: 2, perNode: 1, command: ['true'] });
    const waiting = await machines.until('to say why it waits', id, ({ shares }) =>
      shares.some(({ whyNot }) => whyNot?.includes('nope0')),
    );
    expect(waiting.shares.find(({ nodeName }) => nodeName === 'ben')?.whyNot).toBe(
      'has no network interface nope0 with an address now',
    );
    expect(waiting).toMatchObject({
      status: 'queued',
      notes: [expect.stringContaining('waits for more machines')],
    });
    await setTo('lo');
    expect(await machines.finished(id)).toMatchObject({ status: 'done' });
  });

  test('a program that no machine has fails the job at once, after each was asked once', async () => {
    const { id } = await machines.submit({ kind: 'command', command: ['nosuchprogram'] });
    expect((await machines.finished(id, 20_000)).error?.message).toMatch(
      /^there is no program "nosuchprogram" on (anna, ben|ben, anna) \(is it one of the inputs\?\)$/,
    );
    expect((await machines.tasks(id)).map(({ outcome }) => outcome)).toEqual(['refused', 'refused']);
    const gang = await submitGang(machines, { ranks: 2, perNode: 1, command: ['nosuchprogram'] });
    expect((await machines.finished(gang.id, 20_000)).error?.message).toMatch(
      /^rank \d on (anna|ben): there is no program "nosuchprogram" here/,
    );
  });

  test('a cancelled gang ends everywhere, also what ignores being told', async () => {
    const script = `trap '' TERM; echo "start $COVEY_START"; while :; do sleep 0.2; done`;
    const { id } = await submitGang(machines, { ranks: 4, perNode: 2, script });
    await running(machines, id);
    await machines.controller().client.call('cancelJob', { params: { job: id } });
    expect(await machines.finished(id, 30_000)).toMatchObject({ status: 'cancelled' });
    await nothingRuns(machines);
  });

  test('a machine that dies takes its gang down, which begins again on what is left', async () => {
    const script = `echo "start $COVEY_START rank $COVEY_RANK"; if [ $COVEY_START = 1 ]; then sleep 600; fi`;
    const { id } = await submitGang(machines, { ranks: 2, script, restarts: 1 });
    await running(machines, id);
    const { shares } = await machines.view(id);
    expect(shares.filter(({ running: tasks }) => tasks === 1)).toHaveLength(2);
    await machines.worker('ben').crash();
    const view = await machines.finished(id);
    expect(view).toMatchObject({ status: 'done', partitions: { done: 2 } });
    expect(view.shares.find(({ nodeName }) => nodeName === 'anna')?.donePercent).toBe(100);
    expect(await machines.log(id, 1)).toBe('start 2 rank 1\n');
    await nothingRuns(machines);
  });

  test.skipIf(torchMissing !== null)(
    `torch.distributed with gloo trains over both machines${torchMissing === null ? '' : ` (${torchMissing})`}`,
    async () => {
      await checkTorch(machines);
    },
  );
});

const noNetwork = unconfined ?? netnsMissing();
describe.skipIf(noNetwork !== null)(
  `gangs over a network${noNetwork === null ? '' : ` (${noNetwork})`}`,
  () => {
    let network: Network;
    let machines: JobMachines;
    beforeAll(() => removeLeftoverNetworks());
    beforeEach(async () => {
      network = createNetwork(['desk', 'left', 'right']);
      const { hosts } = network;
      const on = (name: string) => ({ ...(hosts[name] ? { host: hosts[name] } : {}) });
      machines = await startJobMachines(cluster.current, ['left', 'right'], {
        network: { interface: 'eth0', ports: gangPorts },
        controller: { ...on('desk'), api: '127.0.0.1:0' },
        worker: on,
      });
    });
    afterEach(async () => {
      await cluster.current.close().catch(() => undefined);
      await network.destroy();
    });
    afterAll(() => removeLeftoverNetworks());

    test.skipIf(pythonMissing !== null)(
      `ranks find one another at the addresses of their machines${pythonMissing === null ? '' : ` (${pythonMissing})`}`,
      async () => {
        const { left, right } = network.hosts;
        await checkRendezvous(machines, [left?.address ?? '', right?.address ?? '']);
      },
    );

    test.skipIf(torchMissing !== null)(
      `torchrun trains by the template for it${torchMissing === null ? '' : ` (${torchMissing})`}`,
      async () => {
        await checkTorchrun(machines);
      },
    );

    test.skipIf(mpiMissing !== null)(
      `a program of MPI runs by the template for it${mpiMissing === null ? '' : ` (${mpiMissing})`}`,
      async () => {
        await checkMpi(machines);
      },
    );
  },
);

/** A line through points of which each rank has its own: the gradients of all give the right one. */
const training = `
import os, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
torch.manual_seed(0)
torch.set_num_threads(1)
dist.init_process_group('gloo')
rank, size = dist.get_rank(), dist.get_world_size()
ones = torch.ones(3) * (rank + 1)
dist.all_reduce(ones)
assert ones.tolist() == [size * (size + 1) / 2] * 3, ones
model = DistributedDataParallel(torch.nn.Linear(1, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
x = torch.linspace(-1, 1, 16)[rank::size].unsqueeze(1)
for step in range(200):
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(x), 3 * x + 2).backward()
    optimizer.step()
weight, bias = model.module.weight.item(), model.module.bias.item()
print(f'rank {rank} of {size}: {weight:.2f} {bias:.2f}')
if rank == 0: torch.save(model.module.state_dict(), os.environ['COVEY_OUTPUT'] + '/model.pt')
dist.destroy_process_group()
`;

const torchLimits = { memoryBytes: 2 ** 31, processes: 256, outputBytes: 2 ** 26 };

async function checkTorch(machines: JobMachines): Promise<void> {
  const { id } = await submitGang(machines, {
    ranks: 2,
    perNode: 1,
    script: training,
    interpreter: python,
    limits: torchLimits,
    outputs: [{ path: 'model.pt', optional: true }],
  });
  const view = await machines.finished(id, 120_000);
  expect(view).toMatchObject({ status: 'done', error: null });
  expect(view.shares.filter(({ donePercent }) => donePercent === 50)).toHaveLength(2);
  for (const rank of [0, 1]) expect(await machines.log(id, rank)).toContain(`rank ${rank} of 2: 3.00 2.00\n`);
  expect(view.result?.artifacts.map(({ name }) => name)).toEqual(['0/model.pt']);
}

/** torchrun of PyTorch 1.13 does not start on Python 3.11 unless it redirects something, be it of a process that is not there. */
const debianTorchrun = { PET_REDIRECTS: '9:1', PET_TEE: '9:1' };

/** Two processes on each machine, with Debian's torch and a program in the place of the one that trains. */
async function checkTorchrun(machines: JobMachines): Promise<void> {
  const program = path.join(cluster.current.directory, 'lora_train.py');
  writeFileSync(program, training);
  const spec = templateOf('torchrun-lora.yaml');
  const { id } = await submitGang(machines, {
    ...spec,
    script: (spec.script ?? '').replace('/opt/train/bin/', '/usr/bin/'),
    inputs: [{ artifact: await machines.put(program), path: 'lora_train.py' }],
    env: { ...spec.env, PROCESSES: '2', ...debianTorchrun },
    requires: { os: 'linux', cpus: 1, memoryBytes: 2 ** 28 },
    limits: torchLimits,
    outputs: [{ path: 'model.pt', optional: true }],
  });
  const view = await machines.finished(id, 120_000);
  const output = `${await machines.log(id, 0)}\n${await machines.log(id, 1)}`;
  expect(view, output).toMatchObject({ status: 'done', error: null });
  for (const process of [0, 1, 2, 3]) expect(output).toContain(`rank ${process} of 4: 3.00 2.00`);
  expect(view.result?.artifacts.map(({ name }) => name)).toEqual(['0/model.pt']);
}

function templateOf(name: string): Omit<z.output<typeof gangJobSchema>, 'kind'> {
  const file = path.join(checkout, 'resources', 'templates', name);
  const spec = readJobDocument(readFileSync(file, 'utf8'), file);
  if (spec.kind !== 'gang') throw new Error(`${name} is a job of kind ${spec.kind}`);
  return spec;
}

async function checkMpi(machines: JobMachines): Promise<void> {
  const { directory } = cluster.current;
  const source = path.join(directory, 'program.c');
  const program = path.join(directory, 'program');
  writeFileSync(source, mpiProgram);
  execFileSync('mpicc.openmpi', ['-o', program, source], { timeout: 60_000 });
  const { id } = await submitGang(machines, {
    ...templateOf('mpi.yaml'),
    inputs: [{ artifact: await machines.put(program), path: 'program' }],
    env: { PROCESSES: '2' },
  });
  const view = await machines.finished(id, 120_000);
  const output = (await machines.log(id, 0)).trim().split('\n').sort();
  expect({ status: view.status, error: view.error, output }).toEqual({
    status: 'done',
    error: null,
    output: [0, 1, 2, 3].map((rank) => `process ${rank} of 4: 30`),
  });
}
