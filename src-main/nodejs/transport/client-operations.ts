import { CoveyError, type ErrorCode } from '#shared/errors.ts';
import type { TransportCommand, TransportEvent } from '#shared/host/transport.ts';

/** Commands to the transport process that will be answered. */
export interface Operations {
  /**
   * Sends a command; `accept` reads the answer in the moment that it comes, before any event behind it, and
   * returns null when it is the wrong one. Rejects at once when there is no process to take the command.
   * @param whenDown the code for that
   */
  run<T>(
    whenDown: ErrorCode,
    command: (operation: number) => TransportCommand,
    accept: (event: TransportEvent, operation: number) => T | null,
    signal?: AbortSignal,
  ): Promise<T>;
  has(operation: number): boolean;
  done(operation: number, event: TransportEvent): void;
  failed(operation: number, error: CoveyError): void;
  failAll(error: CoveyError): void;
}

interface Operation {
  readonly done: (event: TransportEvent) => void;
  readonly failed: (error: CoveyError) => void;
}

/** @param send false: there is no process to take the command */
export function createOperations(
  send: (command: TransportCommand) => boolean,
  isClosed: () => boolean,
): Operations {
  const operations = new Map<number, Operation>();
  let last = 0;

  const settle = (id: number, use: (operation: Operation) => void): void => {
    const operation = operations.get(id);
    operations.delete(id);
    if (operation) use(operation);
  };

  return {
    run: (whenDown, command, accept, signal) =>
      new Promise((resolve, reject) => {
        last += 1;
        const id = last;
        if (signal?.aborted) return reject(CoveyError.from(signal.reason));
        const onAbort = (): void => {
          if (!operations.delete(id)) return;
          send({ type: 'cancel', operation: id });
          reject(CoveyError.from(signal?.reason));
        };
        const over = (): void => signal?.removeEventListener('abort', onAbort);
        const failed = (error: CoveyError): void => {
          over();
          reject(error);
        };
        signal?.addEventListener('abort', onAbort, { once: true });
        const sent = command(id);
        operations.set(id, {
          failed,
          done(event) {
            const value = accept(event, id);
            if (value === null) {
              return failed(
                new CoveyError(
                  'internal_error',
                  `The transport process sent a wrong answer to ${sent.type}.`,
                ),
              );
            }
            over();
            return resolve(value);
          },
        });
        if (send(sent)) return undefined;
        operations.delete(id);
        return failed(
          isClosed()
            ? new CoveyError('shutting_down', 'This machine is shutting down.')
            : new CoveyError(whenDown, 'The transport process is being started again.'),
        );
      }),
    has: (operation) => operations.has(operation),
    done: (operation, event) => settle(operation, (entry) => entry.done(event)),
    failed: (operation, error) => settle(operation, (entry) => entry.failed(error)),
    failAll(error) {
      const all = [...operations.values()];
      operations.clear();
      for (const operation of all) operation.failed(error);
    },
  };
}
