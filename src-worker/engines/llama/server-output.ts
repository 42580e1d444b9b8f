/**
 * What llama-server says of itself. Started with `LLAMA_SERVER_ROUTER_PORT` in its environment it believes to be
 * the child of its own router and reports on standard output, one line each:
 *
 *   cmd_child_to_router:state:{"state":"loading","payload":{"stages":["text_model"],"current":"text_model","value":0.42}}
 *   cmd_child_to_router:state:{"state":"ready","payload":{"meta":{"n_vocab":32000,...},...}}
 *
 * `value` is the share of the weights' bytes that are where they belong (tools/server/server-context.cpp,
 * `load_progress_callback`). In that mode it also ends when its standard input closes, and wants a line there
 * before it ends politely. The port it chose stands in its log: "listening on http://127.0.0.1:PORT".
 */
export type ServerOutput =
  | { readonly kind: 'progress'; readonly stage: string; readonly share: number }
  | { readonly kind: 'ready'; readonly vocabularySize: number | null }
  | { readonly kind: 'listening'; readonly port: number }
  | { readonly kind: 'log'; readonly level: 'debug' | 'info' | 'warn' | 'error'; readonly message: string };

/** Enables the reports above; the port itself is never used by the child. */
export const reportingEnvironment = { LLAMA_SERVER_ROUTER_PORT: '1' };
/** The line that ends a reporting server politely. */
export const exitLine = 'cmd_router_to_child:exit';

const stateMark = 'cmd_child_to_router:state:';

export function parseServerOutput(line: string): ServerOutput {
  const at = line.indexOf(stateMark);
  if (at >= 0) {
    const state = parseState(line.slice(at + stateMark.length));
    if (state) return state;
  }
  const listening = /listening on https?:\/\/127\.0\.0\.1:(\d+)/.exec(line);
  if (listening) return { kind: 'listening', port: Number(listening[1]) };
  return { kind: 'log', ...parseLogLine(line) };
}

interface Payload {
  readonly current?: unknown;
  readonly value?: unknown;
  readonly meta?: { readonly n_vocab?: unknown } | null;
}

function parseState(json: string): ServerOutput | null {
  let parsed: unknown;
  try {
    parsed = JSON.parse(json);
  } catch {
    return null;
  }
  const { state, payload } = parsed as {
    state?: unknown;
    payload?: Payload | null;
  };
  if (state === 'ready') {
    const size = payload?.meta?.n_vocab;
    return { kind: 'ready', vocabularySize: typeof size === 'number' && size > 0 ? size : null };
  }
  const share = payload?.value;
  if (state === 'loading' && typeof share === 'number' && share >= 0 && share <= 1) {
    const stage = payload?.current;
    return { kind: 'progress', stage: typeof stage === 'string' ? stage : '', share };
  }
  return { kind: 'log', level: 'debug', message: `state ${String(state)}` };
}

/** `0.00.012.345 W message`: minutes.seconds.ms.us since the start and a level, where the program gives them. */
export function parseLogLine(line: string): { level: 'debug' | 'info' | 'warn' | 'error'; message: string } {
  const match = /^\d+\.\d\d\.\d\d\d\.\d\d\d ([IWED]) (.*)$/.exec(line);
  if (!match) return { level: /^error\b/i.test(line) ? 'error' : 'info', message: line };
  const level = ({ I: 'info', W: 'warn', E: 'error', D: 'debug' } as const)[
    match[1] as 'I' | 'W' | 'E' | 'D'
  ];
  return { level, message: match[2] ?? '' };
}
