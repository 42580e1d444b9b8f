import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useDebouncedValue } from '@mantine/hooks';
import type { Preview } from '#shared/api/dashboard.ts';
import type { LoadBody, NodeView } from '#shared/api/schema.ts';
import type { CoveyError } from '#shared/errors.ts';
import { useApi } from '../../app/api-context.ts';

const settleMs = 200;

export interface PreviewState {
  /** The last that came; of an earlier body while `isChecking`. */
  readonly preview: Preview | null;
  readonly isChecking: boolean;
  readonly error: CoveyError | null;
}

/**
 * What a load would do, asked again whenever the body has settled or a machine comes or goes. null for a body that
 * is not complete.
 */
export function usePreview(body: LoadBody | null, nodes: readonly NodeView[]): PreviewState {
  const api = useApi();
  const text = body === null ? '' : JSON.stringify(body);
  const [settled] = useDebouncedValue(text, settleMs, { leading: true });
  const machines = nodes.map((node) => `${node.id} ${node.eligible} ${node.deployments.length}`).join();
  const query = useQuery<Preview, CoveyError>({
    queryKey: ['previewLoad', settled, machines],
    queryFn: ({ signal }) => api.call('previewLoad', { body: JSON.parse(settled) as LoadBody, signal }),
    enabled: settled !== '',
    placeholderData: keepPreviousData,
    // Free memory changes all the time.
    staleTime: 2_000,
    gcTime: 10_000,
  });
  return {
    preview: query.data ?? null,
    isChecking: text !== settled || query.isPlaceholderData || query.isFetching,
    error: query.error,
  };
}
