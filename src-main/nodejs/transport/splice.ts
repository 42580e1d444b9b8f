import type { Socket } from 'node:net';
import { endWith } from './frames.ts';

export type SpliceSide = 'near' | 'far';

export interface SpliceObserver {
  /** Bytes came from this side. Called for every read: keep it to a few additions. */
  onBytes?(from: SpliceSide, bytes: number): void;
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
    near.off('drain', resumeFar);
    far.off('drain', resumeNear);
    endWith(near);
    endWith(far);
    observer.onEnd?.(first, error);
  };
  const resumeNear = (): void => void near.resume();
  const resumeFar = (): void => void far.resume();
  const onNear = (chunk: Buffer): void => {
    observer.onBytes?.('near', chunk.length);
    if (!far.write(chunk)) near.pause();
  };
  const onFar = (chunk: Buffer): void => {
    observer.onBytes?.('far', chunk.length);
    if (!near.write(chunk)) far.pause();
  };
  near.on('drain', resumeFar);
  far.on('drain', resumeNear);
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
      near.destroy();
      far.destroy();
    }
  };
}
