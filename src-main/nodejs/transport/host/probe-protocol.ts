/** See probe-server.ts. */
export const probeOps = { ping: 1, up: 2, down: 3 } as const;

/** Bytes each way at most, and how long a probe may last after its preamble. */
export const probeLimits = { bytes: 64 * 1024 * 1024, ms: 6_000 } as const;
