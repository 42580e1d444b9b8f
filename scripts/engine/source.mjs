import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { runCommand } from './command.mjs';

const gitMs = 300_000;

/** What is taken out of the bundle: all that a build reads, and the licences. */
const wanted = ['LICENSE', 'licenses', 'common', 'ggml', 'include', 'src', 'tools', 'vendor'];

/**
 * llama.cpp's source in `directory`, patched as the shipped libraries are. Does nothing when it is there already.
 * @param {{ bundle: string, sourceCommit: string, patches: readonly string[], patchesHash: string }} inputs
 * @param {string} directory
 * @param {string} git
 */
export async function ensureSource(inputs, directory, git) {
  const stamp = path.join(directory, '.covey-source');
  const wantedStamp = `${inputs.sourceCommit} ${inputs.patchesHash}\n`;
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === wantedStamp) return;
  rmSync(directory, { recursive: true, force: true });
  mkdirSync(directory, { recursive: true });
  const repository = path.join(directory, '.git');

  /** @param {readonly string[]} args */
  const run = async (...args) => {
    const answer = await runCommand(
      git,
      [`--git-dir=${repository}`, `--work-tree=${directory}`, '-c', 'core.autocrlf=false', ...args],
      {
        timeoutMs: gitMs,
        cwd: directory,
        // The user's own settings (hooks, filters, signatures) have no say here.
        env: { ...process.env, GIT_CONFIG_GLOBAL: os.devNull, GIT_CONFIG_NOSYSTEM: '1' },
      },
    );
    return answer.code === 0 ? null : `git ${args[0]} failed: ${answer.tail}`;
  };
  const must = async (...args) => {
    const problem = await run(...args);
    if (problem !== null) throw new Error(`cannot unpack llama.cpp's source: ${problem}`);
  };

  await must('init', '--quiet');
  await must('fetch', '--quiet', '--no-tags', inputs.bundle, 'HEAD');
  await must('checkout', '--quiet', inputs.sourceCommit, '--', ...wanted);
  for (const patch of inputs.patches) {
    // A release may have a patch already: then it can be taken back.
    if ((await run('apply', '--reverse', '--check', patch)) === null) continue;
    await must('apply', '--whitespace=nowarn', patch);
  }
  rmSync(repository, { recursive: true, force: true });
  writeFileSync(stamp, wantedStamp);
}

/**
 * The RPC protocol version in the source's header, `major.minor.patch`.
 * @param {string} source llama.cpp source tree
 */
export function readRpcProtocolVersion(source) {
  const header = readFileSync(path.join(source, 'ggml', 'include', 'ggml-rpc.h'), 'utf8');
  return ['MAJOR', 'MINOR', 'PATCH']
    .map((part) => {
      const match = new RegExp(`^#define\\s+RPC_PROTO_${part}_VERSION\\s+(\\d+)\\s*$`, 'm').exec(header);
      if (match === null) throw new Error(`ggml-rpc.h defines no RPC_PROTO_${part}_VERSION`);
      return String(match[1]);
    })
    .join('.');
}
