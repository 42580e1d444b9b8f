/** A worker whose owner set `api.requireKey` asks the controller with this header to want a key for the request. */
export const requireKeyHeader = 'covey-require-key';
