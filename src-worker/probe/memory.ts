import { freemem, totalmem } from 'node:os';

/** Memory a new program may take: free plus reclaimable, within the limit of the container where there is one. */
export function availableBytes(): number {
  const limit = process.constrainedMemory();
  // Without a limit the answer is 0 or beyond all memory.
  const limited = limit > 0 && limit < totalmem();
  return Math.max(0, limited ? Math.min(freemem(), process.availableMemory()) : freemem());
}
