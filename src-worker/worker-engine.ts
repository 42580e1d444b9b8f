/** The engine directory as this worker uses it, or why it has none. */
export type WorkerEngine =
  | { readonly directory: string; readonly buildId: string; readonly rpcProtocol: string }
  | { readonly directory: null; readonly reason: string };
