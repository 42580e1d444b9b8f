/**
 * The version both ends of a session must share. One integer, raised on every change that an older peer
 * would misread; a dated line says what changed.
 *
 * 1  2026-11-30  First: join, session, tunnel and http preambles.
 */
export const PROTOCOL_VERSION = 1;

/** ALPN names on the cluster port; each decides what the first byte means. */
export const ALPN = {
  join: 'covey-join',
  session: 'covey-session',
  tunnel: 'covey-tunnel',
  http: 'covey-http',
} as const;
export type AlpnName = (typeof ALPN)[keyof typeof ALPN];

export const LIMITS = {
  joinBytes: 8 * 1024,
  joinMs: 10_000,
  joinConcurrent: 16,
  preambleBytes: 8 * 1024,
  preambleMs: 10_000,
  /** One session frame. */
  frameBytes: 1024 * 1024,
  /** Unsent session bytes after which a peer that does not read is cut. */
  sessionBufferBytes: 8 * 1024 * 1024,
} as const;
