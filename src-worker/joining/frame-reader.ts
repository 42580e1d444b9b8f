import { CoveyError } from '#shared/errors.ts';
import { joinControllerFrame, type JoinControllerFrame } from '#shared/protocol/join.ts';
import { LIMITS } from '#shared/protocol/version.ts';
import type { JoinConversation } from '../../src-main/nodejs/transport/transport.ts';

type Frame<T extends JoinControllerFrame['type']> = Extract<JoinControllerFrame, { type: T }>;

/** The frames of the controller's end, one after the other. */
export interface FrameReader {
  /**
   * The next frame, which must be one of these. Rejects with the controller's own refusal; `invalid_request` when
   * it sends something else; `timeout`; `controller_unreachable` when the connection ends; the signal's reason.
   */
  next<T extends Exclude<JoinControllerFrame['type'], 'refused'>>(
    types: readonly T[],
    timeoutMs: number,
  ): Promise<Frame<T>>;
}

/** A controller is never this far ahead: it waits for our answers. */
const maxQueued = 8;

/** Listens from now on, until the conversation or the signal ends. */
export function createFrameReader(conversation: JoinConversation, signal: AbortSignal): FrameReader {
  const frames: JoinControllerFrame[] = [];
  let failure: CoveyError | null = null;
  let wake = (): void => undefined;

  const fail = (error: CoveyError): void => {
    failure ??= error;
    wake();
  };
  conversation.onMessage((text) => {
    if (failure) return;
    const frame = parseFrame(text);
    if (frame === null) return fail(nonsense('sent something that is no join frame'));
    if (frames.length >= maxQueued) return fail(nonsense('sent too much at once'));
    frames.push(frame);
    wake();
  });
  conversation.onClose((reason) =>
    fail(
      reason ?? new CoveyError('controller_unreachable', 'The controller ended the connection. Try again.'),
    ),
  );
  signal.addEventListener('abort', () => fail(CoveyError.from(signal.reason)), { once: true });

  return {
    async next(types, timeoutMs) {
      const deadline = setTimeout(
        () => fail(new CoveyError('timeout', 'The controller did not answer the request to join in time.')),
        timeoutMs,
      );
      try {
        for (;;) {
          signal.throwIfAborted();
          // What came before the end still counts.
          const frame = frames.shift();
          if (frame?.type === 'refused') throw CoveyError.fromBody(frame.error);
          if (frame && isOneOf(frame, types)) return frame;
          if (frame) throw nonsense(`sent "${frame.type}" where it has no place`);
          if (failure) throw failure;
          await new Promise<void>((resolve) => {
            wake = resolve;
          });
        }
      } finally {
        clearTimeout(deadline);
      }
    },
  };
}

function isOneOf<T extends JoinControllerFrame['type']>(
  frame: JoinControllerFrame,
  types: readonly T[],
): frame is Frame<T> {
  return (types as readonly string[]).includes(frame.type);
}

function parseFrame(text: string): JoinControllerFrame | null {
  if (text.length > LIMITS.joinBytes) return null;
  try {
    const parsed = joinControllerFrame.safeParse(JSON.parse(text));
    return parsed.success ? parsed.data : null;
  } catch {
    return null;
  }
}

function nonsense(what: string): CoveyError {
  return new CoveyError(
    'invalid_request',
    `The controller ${what}: is the same version of Covey installed on both machines?`,
  );
}
