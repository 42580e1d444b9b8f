import { QueryClient } from '@tanstack/react-query';
import { CoveyError } from '#shared/errors.ts';

/** Answers stay good until an event says otherwise: nothing is asked for again by time, focus or mounting. */
export function createQueries(): QueryClient {
  return new QueryClient({
    defaultOptions: {
      queries: {
        staleTime: Infinity,
        gcTime: 5 * 60_000,
        refetchOnWindowFocus: false,
        refetchOnReconnect: false,
        networkMode: 'always',
        retry: (count, error) => count < 2 && error instanceof CoveyError && error.retryable,
        retryDelay: (count) => 500 * 2 ** count,
      },
      mutations: { networkMode: 'always', retry: false },
    },
  });
}
