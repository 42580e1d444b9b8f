import { CoveyError } from '#shared/errors.ts';
import type { ChunkCopy, HasherCommand, HasherEvent } from '#shared/host/artifact-hasher.ts';
import type { ArtifactId } from '#shared/lib/ids.ts';
import type { HostProcess, ProcessHost } from '../process-host/process-host.ts';
import type { FileDigest } from './digest.ts';

/**
 * Reading and hashing of files, in a process of its own that is started at first use and ends when it has had
 * nothing to do for a while. When it dies what it was at fails, and the next order starts another.
 */
export interface Hasher {
  digest(paths: readonly string[], signal: AbortSignal): Promise<readonly FileDigest[]>;
  /** Hashes a file while it is being written from its start. */
  follow(path: string): FileFollower;
  /** The indexes of chunks that are not what they should be; null is not looked at. */
  compare(
    path: string,
    bytes: number,
    chunks: readonly (ArtifactId | null)[],
    signal: AbortSignal,
  ): Promise<readonly number[]>;
  /** Copies chunks that are still what they should be. @returns the indexes of the others */
  copy(copies: readonly ChunkCopy[], signal: AbortSignal): Promise<readonly number[]>;
  close(): void;
}

export interface FileFollower {
  /** So much of it, from its start, is written and will not change. */
  advance(bytes: number): void;
  finish(bytes: number, signal: AbortSignal): Promise<ArtifactId>;
  close(): void;
}

const idleMs = 30_000;
/** Copies and paths per message: a channel's message is held whole in memory. */
const perMessage = 2_048;

interface Waiting {
  readonly resolve: (event: HasherEvent) => void;
  readonly reject: (error: CoveyError) => void;
}

export function createHasher(processHost: ProcessHost): Hasher {
  const waiting = new Map<number, Waiting>();
  const followed = new Set<number>();
  let child: HostProcess | null = null;
  let last = 0;
  let closed = false;
  let idle: NodeJS.Timeout | undefined;

  const start = (): HostProcess => {
    if (closed) throw new CoveyError('shutting_down', 'This machine is shutting down.');
    const started = processHost.fork('artifact-hasher', { label: 'artifacts' });
    started.onMessage((message) => {
      const event = message as HasherEvent;
      const entry = waiting.get(event.operation);
      waiting.delete(event.operation);
      if (event.type === 'failed') entry?.reject(CoveyError.fromBody(event.error));
      else entry?.resolve(event);
      rest();
    });
    started.onExit(({ detail }) => {
      if (child !== started) return;
      child = null;
      followed.clear();
      const all = [...waiting.values()];
      waiting.clear();
      for (const entry of all) {
        entry.reject(new CoveyError('internal_error', `The hashing process ${detail}.`));
      }
    });
    return started;
  };
  const rest = (): void => {
    clearTimeout(idle);
    if (waiting.size > 0 || followed.size > 0) return;
    idle = setTimeout(() => {
      const ending = child;
      child = null;
      ending?.kill();
    }, idleMs);
    idle.unref();
  };
  const send = (command: HasherCommand): void => {
    clearTimeout(idle);
    child ??= start();
    child.send(command);
  };

  const ask = <T>(
    command: HasherCommand,
    signal: AbortSignal,
    read: (event: HasherEvent) => T | null,
  ): Promise<T> =>
    new Promise((resolve, reject) => {
      if (signal.aborted) return reject(CoveyError.from(signal.reason));
      const { operation } = command;
      const onAbort = (): void => {
        waiting.delete(operation);
        child?.send({ type: 'cancel', operation } satisfies HasherCommand);
        rest();
        reject(CoveyError.from(signal.reason));
      };
      const over = (): void => signal.removeEventListener('abort', onAbort);
      signal.addEventListener('abort', onAbort, { once: true });
      waiting.set(operation, {
        resolve(event) {
          over();
          const value = read(event);
          if (value === null)
            reject(new CoveyError('internal_error', 'The hashing process answered wrongly.'));
          else resolve(value);
        },
        reject(error) {
          over();
          reject(error);
        },
      });
      try {
        send(command);
      } catch (error) {
        waiting.delete(operation);
        over();
        reject(CoveyError.from(error));
      }
      return undefined;
    });
  const next = (): number => (last += 1);

  return {
    async digest(paths, signal) {
      const digests: FileDigest[] = [];
      for (let from = 0; from < paths.length; from += perMessage) {
        const part = paths.slice(from, from + perMessage);
        digests.push(
          ...(await ask({ type: 'digest', operation: next(), paths: part }, signal, (event) =>
            event.type === 'digested' ? event.digests : null,
          )),
        );
      }
      return digests;
    },
    follow(path) {
      const operation = next();
      send({ type: 'follow', operation, path });
      const process = child;
      followed.add(operation);
      let over = false;
      const alive = (): boolean => !over && child === process;
      const close = (): void => {
        if (over) return;
        if (alive()) child?.send({ type: 'cancel', operation } satisfies HasherCommand);
        over = true;
        followed.delete(operation);
        rest();
      };
      return {
        advance(bytes) {
          if (alive()) child?.send({ type: 'advance', operation, bytes } satisfies HasherCommand);
        },
        async finish(bytes, signal) {
          try {
            // Another process than the one that has read so far: it begins anew.
            if (!alive()) send({ type: 'follow', operation, path });
            return await ask({ type: 'finish', operation, bytes }, signal, (event) =>
              event.type === 'followed' ? event.sha256 : null,
            );
          } finally {
            over = true;
            followed.delete(operation);
            rest();
          }
        },
        close,
      };
    },
    compare: (path, bytes, chunks, signal) =>
      ask({ type: 'compare', operation: next(), path, bytes, chunks }, signal, (event) =>
        event.type === 'compared' ? event.wrong : null,
      ),
    async copy(copies, signal) {
      const failed: number[] = [];
      for (let from = 0; from < copies.length; from += perMessage) {
        const part = copies.slice(from, from + perMessage);
        const wrong = await ask({ type: 'copy', operation: next(), copies: part }, signal, (event) =>
          event.type === 'copied' ? event.failed : null,
        );
        failed.push(...wrong.map((index) => index + from));
      }
      return failed;
    },
    close() {
      closed = true;
      clearTimeout(idle);
      const ending = child;
      child = null;
      ending?.kill();
      for (const entry of waiting.values()) {
        entry.reject(new CoveyError('shutting_down', 'This machine is shutting down.'));
      }
      waiting.clear();
    },
  };
}
