import type { Socket } from 'node:net';
import { endWith } from './frames.ts';

export type SpliceSide = 'near' | 'far';

export interface SpliceObserver {
  /** Bytes came from this side. Called for every read: keep it to a few additions. */
  onBytes?(from: SpliceSide, bytes: number): void;
  /** As `onBytes`. @returns how long this side is not read, ms; 0: it goes on */
  paceMs?(from: SpliceSide, bytes: number): number;
  /** Once: this side ended or broke first. What it had sent is still delivered to the other. */
  onEnd?(first: SpliceSide, error: Error | null): void;
}

/**
 * Joins two streams until either ends; then the other gets what is on its way and ends too (no half-open
 * state: engines take a half-close for the end anyway). A side is read only as fast as the other takes it.
 * @returns ends both at once
 */
export function splice(near: Socket, far: Socket, observer: SpliceObserver = {}): () => void {
  let over = false;
  const finish = (first: SpliceSide, error: Error | null): void => {
    if (over) return;
    over = true;
    for (const socket of [near, far]) socket.removeListener('data', socket === near ? onNear : onFar);
    near.off('drain', farSource.taken);
    far.off('drain', nearSource.taken);
    nearSource.end();
    farSource.end();
    endWith(near);
    endWith(far);
    observer.onEnd?.(first, error);
  };
  const nearSource = createSource(near);
  const farSource = createSource(far);
  const onNear = (chunk: Buffer): void => {
    observer.onBytes?.('near', chunk.length);
    if (!far.write(chunk)) nearSource.full();
    nearSource.rest(observer.paceMs?.('near', chunk.length) ?? 0);
  };
  const onFar = (chunk: Buffer): void => {
    observer.onBytes?.('far', chunk.length);
    if (!near.write(chunk)) farSource.full();
    farSource.rest(observer.paceMs?.('far', chunk.length) ?? 0);
  };
  near.on('drain', farSource.taken);
  far.on('drain', nearSource.taken);
  for (const [side, socket] of [
    ['near', near],
    ['far', far],
  ] as const) {
    socket.once('end', () => finish(side, null));
    socket.once('error', (error: Error) => finish(side, error));
    socket.once('close', () => finish(side, null));
  }
  near.on('data', onNear);
  far.on('data', onFar);
  // An end that came before they were joined is not told again.
  if (near.readableEnded || near.destroyed) finish('near', null);
  else if (far.readableEnded || far.destroyed) finish('far', null);
  return () => {
    if (!over) {
      over = true;
      nearSource.end();
      farSource.end();
      near.destroy();
      far.destroy();
    }
  };
}

/** A side as the one that is read: it goes on when the other has taken what came and its pause is over. */
interface Source {
  /** The other side takes no more for now. */
  readonly full: () => void;
  readonly taken: () => void;
  readonly rest: (ms: number) => void;
  readonly end: () => void;
}

function createSource(socket: Socket): Source {
  let full = false;
  let pause: NodeJS.Timeout | null = null;
  return {
    full() {
      full = true;
      socket.pause();
    },
    taken() {
      full = false;
      if (!pause) socket.resume();
    },
    rest(ms) {
      if (ms <= 0 || pause) return;
      socket.pause();
      pause = setTimeout(() => {
        pause = null;
        if (!full) socket.resume();
      }, ms);
    },
    end() {
      if (pause) clearTimeout(pause);
    },
  };
}
