import { create } from 'zustand';
import type { ArtifactView } from '#shared/domain/artifact.ts';
import { CoveyError } from '#shared/errors.ts';
import type { ApiClient } from '../../api-client/api-client.ts';
import { useSession } from '../../stores/session.ts';
import { upload, type UploadProgress, type UploadSource } from './upload.ts';

export interface UploadEntry {
  readonly id: string;
  readonly source: UploadSource;
  readonly bytes: number;
  readonly status: 'running' | 'done' | 'stopped' | 'failed';
  readonly progress: UploadProgress | null;
  /** Since the present step began: for its speed. */
  readonly stepAt: number;
  readonly error: CoveyError | null;
  readonly artifact: ArtifactView | null;
}

/** Uploads go on while other pages are looked at; those that ended stay until they are put away. */
export const useUploads = create<{ readonly entries: readonly UploadEntry[] }>(() => ({ entries: [] }));
const running = new Map<string, AbortController>();

function change(id: string, changes: Partial<UploadEntry>): void {
  useUploads.setState(({ entries }) => ({
    entries: entries.map((entry) => (entry.id === id ? { ...entry, ...changes } : entry)),
  }));
}

/** @returns the artifact, or null when it did not come to that: the list of uploads says why */
export function startUpload(api: ApiClient, source: UploadSource): Promise<ArtifactView | null> {
  const id = crypto.randomUUID();
  const bytes = source.files.reduce((sum, { file }) => sum + file.size, 0);
  const entry: UploadEntry = {
    id,
    source,
    bytes,
    status: 'running',
    progress: null,
    stepAt: Date.now(),
    error: null,
    artifact: null,
  };
  useUploads.setState(({ entries }) => ({ entries: [entry, ...entries] }));
  return run(api, id, source);
}

/** Goes on where it was stopped or broke off. */
export function resumeUpload(api: ApiClient, { id, source }: UploadEntry): Promise<ArtifactView | null> {
  change(id, { status: 'running', error: null, progress: null, stepAt: Date.now() });
  return run(api, id, source);
}

export function stopUpload(id: string): void {
  running.get(id)?.abort();
}

export function putAway(id: string): void {
  useUploads.setState(({ entries }) => ({ entries: entries.filter((entry) => entry.id !== id) }));
}

// When the login ends: nothing of it goes on, or shows in the next.
useSession.subscribe(({ token }) => {
  if (token !== null) return;
  for (const abort of running.values()) abort.abort();
  useUploads.setState({ entries: [] });
});

async function run(api: ApiClient, id: string, source: UploadSource): Promise<ArtifactView | null> {
  const abort = new AbortController();
  running.set(id, abort);
  let step: UploadProgress['step'] | null = null;
  try {
    const artifact = await upload(api, source, abort.signal, (progress) => {
      const isNext = progress.step !== step;
      step = progress.step;
      change(id, { progress, ...(isNext ? { stepAt: Date.now() } : {}) });
    });
    change(id, { status: 'done', artifact });
    return artifact;
  } catch (error) {
    const failure = CoveyError.from(error);
    const stopped = abort.signal.aborted;
    change(id, { status: stopped ? 'stopped' : 'failed', error: stopped ? null : failure });
    return null;
  } finally {
    running.delete(id);
  }
}
