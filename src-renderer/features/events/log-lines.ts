import { useEffect, useState } from 'react';
import type { LogLine } from '#shared/api/schema.ts';
import { CoveyError } from '#shared/errors.ts';
import type { ApiClient } from '../../api-client/api-client.ts';
import { useApi } from '../../app/api-context.ts';

/** As many as the controller keeps. */
const mostLines = 5_000;
const firstRetryMs = 1_000;
const longestRetryMs = 10_000;

export interface LogLines {
  /** Oldest first; null: none have come yet. */
  readonly lines: readonly LogLine[] | null;
  /** Why they do not come now. */
  readonly error: CoveyError | null;
}

/** The machines' log lines, as they come. While nobody follows they stand still, and nothing is asked for. */
export function useLogLines(follows: boolean): LogLines {
  const api = useApi();
  const [state, setState] = useState<LogLines>({ lines: null, error: null });
  useEffect(() => {
    if (!follows) return undefined;
    const stop = new AbortController();
    void followLines(api, stop.signal, (change) => {
      if (!stop.signal.aborted) setState((before) => ({ ...before, ...change }));
    });
    return () => stop.abort();
  }, [api, follows]);
  return state;
}

/** Comes back by itself; each connection brings all lines anew. */
async function followLines(
  api: ApiClient,
  signal: AbortSignal,
  show: (change: Partial<LogLines>) => void,
): Promise<void> {
  let retryMs = firstRetryMs;
  while (!signal.aborted) {
    let lines: readonly LogLine[] = [];
    try {
      const onOpen = (): void => {
        retryMs = firstRetryMs;
        show({ error: null });
      };
      for await (const more of api.logLines({ signal, onOpen })) {
        lines = [...lines, ...more].slice(-mostLines);
        show({ lines });
      }
    } catch (error) {
      if (signal.aborted) return;
      const failure = CoveyError.from(error);
      show({ error: failure });
      if (failure.code === 'token_invalid') return;
    }
    await pause(retryMs, signal);
    retryMs = Math.min(longestRetryMs, retryMs * 2);
  }
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener('abort', () => {
      clearTimeout(timer);
      resolve();
    });
  });
}
