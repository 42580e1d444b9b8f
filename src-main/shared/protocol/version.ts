/**
 * The version both ends of a session must share. One integer, raised on every change that an older peer
 * would misread; a dated line says what changed.
 *
 * 1  2026-11-30  First: join, session, tunnel and http preambles.
 * 2  2026-11-30  Joins are conversations (approval, cluster secret); reverse, relay and probe preambles.
 * 3  2026-11-30  Tasks, artifacts and what a machine can compute.
 */
export const PROTOCOL_VERSION = 3;

/** ALPN names on the cluster port; each decides what the first byte means. */
export const ALPN = {
  join: 'covey-join',
  session: 'covey-session',
  tunnel: 'covey-tunnel',
  http: 'covey-http',
  /** Bytes of artifacts, see nodejs/transport/host/artifact-server. */
  artifact: 'covey-artifact',
  /** Tells who is there: the handshake shows the key, then the connection ends without an application byte. */
  hello: 'covey-hello',
} as const;
export type AlpnName = (typeof ALPN)[keyof typeof ALPN];

export const LIMITS = {
  joinBytes: 8 * 1024,
  joinMs: 10_000,
  joinConcurrent: 16,
  /** Joins that wait for a person, at once, in all and from one address (IPv6: /64). */
  joinWaiting: 16,
  joinWaitingPerAddress: 3,
  preambleBytes: 8 * 1024,
  preambleMs: 10_000,
  /** One session frame. */
  frameBytes: 1024 * 1024,
  /** Unsent session bytes after which a peer that does not read is cut. */
  sessionBufferBytes: 8 * 1024 * 1024,
} as const;
