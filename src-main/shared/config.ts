import { z } from 'zod';

/** Time limits and sizes of the running system; every wait has one of these. */
export const timings = {
  heartbeatMs: 2_000,
  /** Silence after which a node is lost. */
  lostMs: 15_000,
  /** Silence of an ack after which a worker drops its session and dials again. */
  silenceMs: 10_000,
  /** Loaded engines run on this long without a controller. */
  engineLeaseMs: 15 * 60_000,
  pulseMs: 1_000,
  pulseLostMs: 5_000,
  /** No tunnel byte, a busy slot and an idle or stopped debtor for this long: stalled. */
  stallMs: 10_000,
  drainMs: 10 * 60_000,
  /** Running requests may go on for so long on a machine that gives way to its owner. */
  giveWayMs: 30_000,
  joinSecretMs: 60 * 60_000,
  canaryMs: 60_000,
  loadStallMs: 180_000,
  stageStartMs: 60_000,
  connectMs: 10_000,
  stopGraceMs: 5_000,
  /** Failures in this window that make a deployment `failed`. */
  failureWindowMs: 10 * 60_000,
  /** A task runs on this long without word from the controller. */
  taskLeaseMs: 2 * 60_000,
  /** After the end of a session its tasks are given to other machines. */
  taskLossMs: 5_000,
  /** Beyond a task's own time limit, or after it was cancelled: its worker has not ended it, so it counts as lost. */
  taskGraceMs: 30_000,
  /** All ranks of a gang have to be staged and there. */
  gangStartMs: 10 * 60_000,
} as const;
export const failureLimit = 3;
/** Attempts at a partition that may be lost with their machines. */
export const lostAttemptLimit = 20;

export const defaults = {
  apiHost: '127.0.0.1',
  apiPort: 7878,
  clusterHost: '0.0.0.0',
  clusterPort: 7879,
} as const;

/** `HOST:PORT` or `[v6]:PORT`; port 0 means any. */
export const listenAddressSchema = z
  .string()
  .max(300)
  .transform((text, context) => {
    const match = /^(?:\[([0-9a-fA-F:.]+)\]|([^:\s]+)):(\d{1,5})$/.exec(text);
    const port = match ? Number(match[3]) : NaN;
    if (!match || port > 65_535) {
      context.addIssue({
        code: 'custom',
        message: `must be HOST:PORT with a port from 0 to 65535, got "${text}"`,
      });
      return z.NEVER;
    }
    return { host: (match[1] ?? match[2]) as string, port };
  });
export type ListenAddress = z.infer<typeof listenAddressSchema>;
