import { join } from 'node:path';
import type { HostEntry } from './process-host/process-host.ts';

const directory = import.meta.dirname;
const fromSource = import.meta.filename.endsWith('.ts');

/**
 * Absolute paths of the child processes' entry files: the bundles beside this one, or, when this very file
 * runs as source (unit tests, a checkout), their sources.
 */
export const entries: Readonly<Record<HostEntry, string>> = fromSource
  ? {
      'transport-host': join(directory, 'transport', 'transport-host.ts'),
      'engine-host': join(directory, '..', '..', 'src-worker', 'engines', 'host', 'engine-host.ts'),
      'artifact-hasher': join(directory, 'artifacts', 'hasher-host.ts'),
      'kernel-host': join(
        directory,
        '..',
        '..',
        'src-worker',
        'engines',
        'kernels',
        'host',
        'kernel-host.ts',
      ),
      'task-runner': join(
        ...[directory, '..', '..', 'src-worker', 'engines', 'task-runner', 'host', 'task-runner-host.ts'],
      ),
    }
  : {
      'transport-host': join(directory, 'transport-host.js'),
      'engine-host': join(directory, 'engine-host.js'),
      'artifact-hasher': join(directory, 'artifact-hasher.js'),
      'kernel-host': join(directory, 'kernel-host.js'),
      'task-runner': join(directory, 'task-runner.js'),
    };
