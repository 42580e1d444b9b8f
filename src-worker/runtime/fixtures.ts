import type { Address } from '#shared/domain/node.ts';
import type { BootId } from '#shared/lib/ids.ts';
import { defaultSettings } from '#shared/settings.ts';
import type { LogFields, Logger, LogLevel } from '#shared/lib/logger.ts';
import type { LendPort } from '../lend/lend-monitor.ts';
import type { WorkerOptions } from '../worker.ts';
import type { ControllerWays } from './controller-addresses.ts';
import type { RequestHandlers } from './requests.ts';

/** For tests: answers to the controller's requests; those not given fail. */
export function handlers(given: Partial<RequestHandlers> = {}): RequestHandlers {
  const notHere = async (): Promise<never> => Promise.reject(new Error('not in this test'));
  return {
    'model.resolve': notHere,
    'model.list': notHere,
    'model.import': notHere,
    'model.pull': notHere,
    'model.remove': notHere,
    'network.probe': notHere,
    'task.log': notHere,
    'doctor.run': notHere,
    'node.ping': notHere,
    ...given,
  };
}

/** For tests: an owner without wishes. */
export function alwaysLent(): LendPort {
  const state = { lending: true, since: 0, heldBackBy: [], unavailable: [] };
  return { state: () => state, rules: () => defaultSettings.lend, onChange: () => () => undefined };
}

/** For tests: a worker whose machine cares for nothing that the controller says to it as a whole. */
export const unconcerned: Pick<
  WorkerOptions,
  'bootId' | 'onClusterSecret' | 'onName' | 'onNotice' | 'machine' | 'lend' | 'dialGateway'
> = {
  bootId: 'b'.repeat(32) as BootId,
  onClusterSecret: () => undefined,
  onName: () => undefined,
  onNotice: () => undefined,
  machine: null,
  dialGateway: () => Promise.reject(new Error('not in this test')),
  lend: alwaysLent(),
};

/** For tests: a controller that is where it is. */
export function fixedWays(...addresses: Address[]): ControllerWays {
  return {
    addresses: () => addresses,
    connected: () => undefined,
    announced: () => undefined,
    onChange: () => undefined,
  };
}

/** For tests: a logger that keeps what it is given, one string per line. */
export function collectingLogger(): { readonly logger: Logger; readonly lines: string[] } {
  const lines: string[] = [];
  const make = (context: LogFields): Logger => {
    const log = (level: LogLevel, message: string, fields?: LogFields): void => {
      lines.push(`${level} ${message} ${JSON.stringify({ ...context, ...fields })}`);
    };
    return {
      log,
      debug: (message, fields) => log('debug', message, fields),
      info: (message, fields) => log('info', message, fields),
      warn: (message, fields) => log('warn', message, fields),
      error: (message, fields) => log('error', message, fields),
      child: (fields) => make({ ...context, ...fields }),
    };
  };
  return { logger: make({}), lines };
}
