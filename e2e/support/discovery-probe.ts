import { createDiscovery } from '../../src-main/nodejs/discovery/discovery.ts';
import type { Logger } from '../../src-main/shared/lib/logger.ts';
import type { BootId, NodeId } from '../../src-main/shared/lib/ids.ts';

/**
 * Runs discovery alone, in whatever network it is started in: `discovery-probe.ts DIGIT [HOST]`. Its node id and
 * boot id are made of that digit, it is called by it, and says that its port is bound to HOST. Prints its state as a line of JSON (`ProbeState`) at every
 * change and a few times a second, until standard input or SIGTERM ends it.
 */
export interface ProbeState {
  readonly peers: ReturnType<ReturnType<typeof createDiscovery>['peers']>;
  readonly interfaces: ReturnType<ReturnType<typeof createDiscovery>['interfaces']>;
  /** From the start of discovery to the first peer; null: none yet. */
  readonly foundMs: number | null;
  readonly rssBytes: number;
  /** User and system time of this process. */
  readonly cpuMs: number;
}

const [digit = '0', host] = process.argv.slice(2);
const logger: Logger = {
  log: () => undefined,
  debug: () => undefined,
  info: () => undefined,
  warn: (message) => void process.stderr.write(`${message}\n`),
  error: (message) => void process.stderr.write(`${message}\n`),
  child: () => logger,
};

const startedAt = performance.now();
let foundMs: number | null = null;
const discovery = createDiscovery({ logger, clock: { now: () => Date.now() } });
discovery.announce({
  role: 'worker',
  nodeId: digit.repeat(64) as NodeId,
  bootId: digit.repeat(32) as BootId,
  name: `probe ${digit}`,
  version: '0.1.0',
  port: 7000,
  ...(host === undefined ? {} : { host }),
  mark: null,
});

function print(): void {
  const { user, system } = process.cpuUsage();
  const state: ProbeState = {
    peers: discovery.peers(),
    interfaces: discovery.interfaces(),
    foundMs,
    rssBytes: process.memoryUsage.rss(),
    cpuMs: (user + system) / 1_000,
  };
  process.stdout.write(`${JSON.stringify(state)}\n`);
}

discovery.onChange(() => {
  if (discovery.peers().length > 0) foundMs ??= performance.now() - startedAt;
  print();
});
const printing = setInterval(print, 200);
async function end(): Promise<void> {
  clearInterval(printing);
  await discovery.close();
  process.exit(0);
}
process.on('SIGTERM', () => void end());
process.stdin.on('end', () => void end()).resume();
