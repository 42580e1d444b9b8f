import { execFileSync, spawn, spawnSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { pythonMissing } from '../../e2e/support/gang-programs.ts';
import { freePort } from '../../e2e/support/ports.ts';
import { readJobDocument } from './job-document.ts';

/** Gangs for other people's programs, as they are shipped (docs/gangs.md). */
const directory = path.resolve(import.meta.dirname, '..', '..', 'resources', 'templates');
const files = readdirSync(directory).filter((name) => name.endsWith('.yaml'));
const guide = readFileSync(path.resolve(directory, '..', '..', 'docs', 'gangs.md'), 'utf8');

function gangOf(name: string) {
  const spec = readJobDocument(readFileSync(path.join(directory, name), 'utf8'), name);
  if (spec.kind !== 'gang') throw new Error(`${name} is of kind ${spec.kind}`);
  return spec;
}

it('has the templates that are promised, and the guide names each', () => {
  expect(files.sort()).toEqual(['mpi.yaml', 'ray-vllm.yaml', 'sglang.yaml', 'torchrun-lora.yaml']);
  for (const name of files) expect(guide).toContain(`resources/templates/${name}`);
});

it.each(files)('%s is a job that could be submitted', (name) => {
  const spec = gangOf(name);
  expect(spec).toMatchObject({ network: 'lan', perNode: 1 });
  // Every port that the script asks for by its number is one of those.
  const numbers = [...(spec.script ?? '').matchAll(/port (\d+)(?:-(\d+))?\)|PORTS" \| cut -d, -f(\d+)/g)];
  const highest = Math.max(1, ...numbers.map(([, one, last, field]) => Number(last ?? one ?? field)));
  expect(spec.ports).toBeGreaterThanOrEqual(highest);
  // Files that are said to be shipped are.
  const shipped = spec.inputs.map(({ artifact }) => artifact).filter((artifact) => artifact.endsWith('.py'));
  for (const artifact of shipped) expect(existsSync(path.join(directory, artifact))).toBe(true);
});

it.skipIf(pythonMissing !== null)(
  `programs in Python can be read by it${pythonMissing === null ? '' : ` (${pythonMissing})`}`,
  () => {
    const mpi = gangOf('mpi.yaml').script ?? '';
    for (const source of [mpi, readFileSync(path.join(directory, 'lora_train.py'), 'utf8')]) {
      execFileSync('/usr/bin/python3', ['-c', 'import ast, sys; ast.parse(sys.stdin.read())'], {
        input: source,
      });
    }
  },
);

describe.skipIf(process.platform === 'win32')('what scripts call, with stand-ins for the programs', () => {
  let place: string;
  beforeEach(() => {
    place = mkdtempSync(path.join(tmpdir(), 'covey-templates-'));
    mkdirSync(path.join(place, 'bin'));
    for (const program of ['ray', 'vllm', 'python3', 'torchrun']) {
      const file = path.join(place, 'bin', program);
      const lines = ['#!/bin/sh', `{ echo "\${0##*/}"; printf '%s\\n' "$@"; echo; } >> ${place}/calls`];
      writeFileSync(
        file,
        [...lines, `echo "$VLLM_API_KEY $RAY_ADDRESS" > ${place}/variables`, ''].join('\n'),
      );
      chmodSync(file, 0o700);
    }
  });
  afterEach(() => rmSync(place, { recursive: true, force: true }));

  /** Every call of a rank of two, as words: ports of the first rank are 20000 and more, of the second 21000 and more. */
  function calls(name: string, rank: 0 | 1, key = 'a key'): string[] {
    const spec = gangOf(name);
    const ports = Array.from({ length: spec.ports }, (_value, index) => 20_000 + 1_000 * rank + index);
    writeFileSync(path.join(place, 'key'), key);
    const script = (spec.script ?? '').replaceAll(/\/opt\/(train|vllm|sglang)/g, place);
    execFileSync('/bin/sh', ['-c', script], {
      env: {
        ...spec.env,
        PATH: '/usr/bin:/bin',
        TMPDIR: place,
        API_KEY_FILE: path.join(place, 'key'),
        COVEY_RANK: String(rank),
        COVEY_WORLD_SIZE: '2',
        COVEY_HOSTS: '192.0.2.1,192.0.2.2',
        COVEY_PORTS: ports.join(','),
        COVEY_MASTER_ADDR: '192.0.2.1',
        COVEY_MASTER_PORT: '20000',
      },
    });
    const text = readFileSync(path.join(place, 'calls'), 'utf8');
    rmSync(path.join(place, 'calls'));
    return text
      .trimEnd()
      .split('\n\n')
      .map((call) => call.split('\n').join(' '));
  }

  it('torchrun', () => {
    const common = '--nproc_per_node gpu --master_addr 192.0.2.1 --master_port 20000 lora_train.py';
    for (const rank of [0, 1] as const) {
      expect(calls('torchrun-lora.yaml', rank)).toEqual([
        `torchrun --nnodes 2 --node_rank ${rank} ${common}`,
      ]);
    }
  });

  const rayOf = (host: string, first: number): string =>
    [
      `--node-ip-address=${host} --node-manager-port=${first + 1} --object-manager-port=${first + 2}`,
      `--runtime-env-agent-port=${first + 4} --dashboard-agent-grpc-port=${first + 5}`,
      `--dashboard-agent-listen-port=${first + 6} --metrics-export-port=${first + 7}`,
      `--worker-port-list=${Array.from({ length: 8 }, (_value, index) => first + 8 + index).join(',')}`,
      '--num-cpus=1 --num-gpus=1 --disable-usage-stats',
    ].join(' ');

  it('Ray and vLLM: a head that serves, and a worker', () => {
    expect(calls('ray-vllm.yaml', 0)).toEqual([
      `ray start --head --port=20000 --include-dashboard=false ${rayOf('192.0.2.1', 20_000)}`,
      'vllm serve model --host 192.0.2.1 --port 20003 --distributed-executor-backend ray --pipeline-parallel-size 2 --tensor-parallel-size 1',
    ]);
    expect(readFileSync(path.join(place, 'variables'), 'utf8')).toBe('a key 192.0.2.1:20000\n');
    expect(calls('ray-vllm.yaml', 1)).toEqual([
      `ray start --address=192.0.2.1:20000 ${rayOf('192.0.2.2', 21_000)} --block`,
    ]);
  });

  it('SGLang, its key in a file for nobody else', () => {
    for (const rank of [0, 1] as const) {
      expect(calls('sglang.yaml', rank, 'letters1')).toEqual([
        `python3 -m sglang.launch_server --config ${place}/sglang.yaml --model-path model --tp-size 2 --nnodes 2 --node-rank ${rank} --dist-init-addr 192.0.2.1:20000 --host 192.0.2.${rank + 1} --port ${20_001 + 1_000 * rank}`,
      ]);
    }
    const file = path.join(place, 'sglang.yaml');
    expect(readFileSync(file, 'utf8')).toBe('api-key: "letters1"\n');
    expect(statSync(file).mode & 0o777).toBe(0o600);
  });

  it.each(['ray-vllm.yaml', 'sglang.yaml'])('%s serves nobody with the key that it came with', (name) => {
    expect(() => calls(name, 0, gangOf(name).secrets['API_KEY'])).toThrow(/status 2|Command failed/);
    expect(existsSync(path.join(place, 'calls'))).toBe(false);
  });
});

describe.skipIf(pythonMissing !== null || process.platform === 'win32')('the script of mpi.yaml', () => {
  let place: string;
  beforeEach(() => {
    place = mkdtempSync(path.join(tmpdir(), 'covey-mpi-'));
    writeFileSync(path.join(place, 'script.py'), gangOf('mpi.yaml').script ?? '');
    // It ends well, and has started nothing on the other machine.
    writeFileSync(path.join(place, 'mpirun.openmpi'), '#!/bin/sh\n', { mode: 0o755 });
  });
  afterEach(() => rmSync(place, { recursive: true, force: true }));

  it.each([
    ['127.0.0.1,127.0.0.1', '2 ranks on 1 addresses'],
    ['127.0.0.1,127.0.0.2', 'mpirun has ended without what it has to start on other machines'],
  ])('ends with an error for ranks at %s that mpirun does not start', async (hosts, words) => {
    const env = {
      ...process.env,
      PATH: `${place}:${process.env['PATH'] ?? ''}`,
      ...{ COVEY_WORLD_SIZE: '2', COVEY_HOSTS: hosts, PROCESSES: '1' },
      ...{ COVEY_MASTER_ADDR: '127.0.0.1', COVEY_MASTER_PORT: String(await freePort()) },
    };
    const script = path.join(place, 'script.py');
    const other = spawn('python3', [script], { env: { ...env, COVEY_RANK: '1' }, stdio: 'ignore' });
    try {
      const { status, stderr } = spawnSync('python3', [script], {
        env: { ...env, COVEY_RANK: '0' },
        ...{ encoding: 'utf8', timeout: 20_000 },
      });
      expect(stderr).toContain(words);
      expect(status).toBe(1);
    } finally {
      other.kill('SIGKILL');
    }
  });
});
