import { useEffect, useRef } from 'react';
import {
  useMutation,
  useQuery,
  useQueryClient,
  type UseMutationResult,
  type UseQueryResult,
} from '@tanstack/react-query';
import type { ApiAnswer, CallArguments, CallOptions, JsonRoute } from '#shared/api/calls.ts';
import type { ApiRoute } from '#shared/api/schema.ts';
import type { CoveyError } from '#shared/errors.ts';
import { useApi } from '../app/api-context.ts';
import { toastError, toastSuccess } from '../components/toasts.tsx';

/** Routes that read. */
export type ReadRoute = Extract<
  JsonRoute,
  | 'status'
  | 'nodes'
  | 'node'
  | 'nodeHistory'
  | 'models'
  | 'deployments'
  | 'deployment'
  | 'eventHistory'
  | 'pending'
  | 'clusterSecret'
  | 'keys'
  | 'settings'
  | 'self'
  | 'lendMeans'
  | 'discovery'
  | 'links'
  | 'jobs'
  | 'job'
  | 'jobSpec'
  | 'jobStats'
  | 'jobPartitions'
  | 'jobLog'
  | 'tasks'
  | 'artifacts'
>;

type Reading<R extends ReadRoute> = UseQueryResult<ApiAnswer<R>, CoveyError>;

/**
 * What a route answers. It is asked once and stays until an event says that it is out of date; it is never asked
 * for on a timer.
 */
export function useRead<R extends ReadRoute>(route: R, ...options: CallArguments<R>): Reading<R> {
  const api = useApi();
  const [asked] = options;
  return useQuery<ApiAnswer<R>, CoveyError>({
    queryKey: readKey(route, asked as Partial<CallOptions<R>> | undefined),
    queryFn: ({ signal }) => api.call(route, ...([{ ...asked, signal }] as unknown as CallArguments<R>)),
  });
}

/** `[route]`, and what was asked for where anything was: `invalidateQueries` takes the route alone. */
export function readKey<R extends ReadRoute>(
  route: R,
  options?: Partial<CallOptions<R>>,
): readonly unknown[] {
  const { params, query } = options ?? {};
  return params === undefined && query === undefined ? [route] : [route, params ?? {}, query ?? {}];
}

export const useStatus = (): Reading<'status'> => useRead('status');
export const useNodes = (): Reading<'nodes'> => useRead('nodes');
export const useDeployments = (): Reading<'deployments'> => useRead('deployments');
export const useModels = (): Reading<'models'> => useRead('models');
export const usePending = (): Reading<'pending'> => useRead('pending');
export const useLinks = (): Reading<'links'> => useRead('links');
export const useKeys = (): Reading<'keys'> => useRead('keys');
export const useSettings = (): Reading<'settings'> => useRead('settings');

/** What the event stream tells of something (once a second at most) makes these answers out of date. */
export function useFollow(live: unknown, routes: readonly ApiRoute[]): void {
  const client = useQueryClient();
  const seen = useRef(live);
  useEffect(() => {
    if (live === undefined || live === seen.current) return;
    seen.current = live;
    for (const route of routes) {
      // Never a second request for what is being answered.
      void client.invalidateQueries({ queryKey: [route] }, { cancelRefetch: false });
    }
  }, [live, routes, client]);
}

export interface ActionOptions<R extends JsonRoute> {
  /** Said when it is done. */
  readonly done?: (answer: ApiAnswer<R>) => string;
  /** What went wrong, in the title of the message: "Could not drain the machine". null: the caller shows it. */
  readonly failed: string | null;
  /** Lists that are out of date now; events will say so too, a moment later. */
  readonly changes?: readonly ApiRoute[];
}

/** Does something. A failure is a message on the screen, and `error` of what is returned. */
export function useAction<R extends JsonRoute>(
  route: R,
  { done, failed, changes = [] }: ActionOptions<R>,
): UseMutationResult<ApiAnswer<R>, CoveyError, CallOptions<R>> {
  const api = useApi();
  const client = useQueryClient();
  return useMutation<ApiAnswer<R>, CoveyError, CallOptions<R>>({
    mutationFn: (options) => api.call(route, ...([options] as unknown as CallArguments<R>)),
    onSuccess: (answer) => {
      if (done) toastSuccess(done(answer));
    },
    onError: (error) => {
      if (failed !== null) toastError(failed, error);
    },
    onSettled: async () => {
      await Promise.all(changes.map((changed) => client.invalidateQueries({ queryKey: [changed] })));
    },
  });
}
