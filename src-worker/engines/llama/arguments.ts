import type { EngineHostInit } from '#shared/host/engine-host.ts';

export type LlamaProgram = Extract<EngineHostInit['program'], { kind: 'llama' }>;
export type RpcProgram = Extract<EngineHostInit['program'], { kind: 'rpc' }>;

/** An origin that no page has: the server cannot be told to send no CORS header at all. */
const nobodysOrigin = 'https://covey.invalid';

/**
 * llama-server's arguments. Order, split and offload are always explicit: what it would choose by itself from
 * the free memory of the moment differs from what was planned.
 */
export function llamaServerArguments(program: LlamaProgram): string[] {
  const devices = [...program.localDevices, ...program.rpcEndpoints.map((_, index) => `RPC${index}`)];
  return [
    ...['--model', program.modelPath, '--alias', program.modelName, '--offline'],
    ...['--host', '127.0.0.1', '--port', '0'],
    // The RPC devices exist only after `--rpc`, and arguments are read in order.
    ...(program.rpcEndpoints.length > 0 ? ['--rpc', program.rpcEndpoints.join(',')] : []),
    ...['--device', devices.length > 0 ? devices.join(',') : 'none'],
    ...(devices.length > 0 ? ['--split-mode', 'layer', '--tensor-split', program.tensorSplit.join(',')] : []),
    ...['--n-gpu-layers', String(program.gpuLayers), '--fit', 'off'],
    ...['--ctx-size', String(program.contextPerRequest * program.parallel)],
    ...['--parallel', String(program.parallel), '--no-kv-unified'],
    ...['--batch-size', String(program.batch), '--ubatch-size', String(program.batch)],
    ...['--threads', String(program.threads), '--poll', String(program.poll)],
    // Saving idle prompts would pull their KV back over the network, into memory that nobody has planned for.
    ...['--cache-ram', '0', '--no-cache-idle-slots'],
    // The canary is the warm-up.
    '--no-warmup',
    ...['--embeddings', '--pooling', 'mean'],
    ...['--slots', '--no-ui', '--no-ui-mcp-proxy', '--no-agent'],
    ...['--cors-origins', nobodysOrigin, '--no-cors-credentials'],
    ...['--log-colors', 'off'],
  ];
}

/** ggml-rpc-server's arguments. It refuses port 0. */
export function rpcServerArguments(program: RpcProgram, port: number): string[] {
  return ['-H', '127.0.0.1', '-p', String(port), '-d', program.device, '-t', String(program.threads)];
}
