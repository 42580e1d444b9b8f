import { useMemo, useState } from 'react';
import { Button, Group, Text } from '@mantine/core';
import type { JobView } from '#shared/domain/job.ts';
import { Section } from '../../components/page.tsx';
import { plainText } from '../../format/plain-text.ts';
import { useAction } from '../../queries/queries.ts';
import { useIsStale } from '../../stores/connection.ts';
import { DistributionEditor } from './distribution-editor.tsx';
import { currentShares, isSame, toDistribution, type HandShares } from './distribution.ts';

/** Shares of a job that is not finished: what has not begun is shared out anew. */
export function DistributionSection({ job }: { readonly job: JobView }) {
  const { shares, distribution } = job;
  const isManual = distribution === 'manual';
  const now = useMemo(() => currentShares(shares, isManual), [shares, isManual]);
  /** undefined: nothing was changed here. */
  const [draft, setDraft] = useState<HandShares | null | undefined>(undefined);
  const isStale = useIsStale();
  const set = useAction('setDistribution', {
    failed: 'The shares were not changed',
    changes: ['job', 'jobs'],
    done: ({ distribution: mode }) =>
      mode === 'auto' ? 'Shares follow the speed now.' : 'What has not begun is shared out anew.',
  });
  const known = isManual ? now : null;
  const shown = draft === undefined ? known : draft;
  const isChanged =
    draft !== undefined && (draft === null ? isManual : known === null || !isSame(draft, known));
  const apply = (): void =>
    set.mutate(
      { params: { job: job.id }, body: shown === null ? { mode: 'auto' } : toDistribution(shown) },
      { onSuccess: () => setDraft(undefined) },
    );
  return (
    <Section title="Distribution" lead="Can be changed while the job runs; what has begun stays where it is.">
      <DistributionEditor
        machines={shares
          .filter(({ whyNot, targetPercent }) => whyNot === null || targetPercent !== null || isManual)
          .map(({ nodeId, nodeName }) => ({ id: nodeId, name: plainText(nodeName) }))
          .sort((a, b) => a.name.localeCompare(b.name))}
        shares={shown}
        first={() => now}
        disabled={isStale}
        onChange={setDraft}
      />
      <Group mt="md" gap="sm">
        <Button disabled={!isChanged || isStale} loading={set.isPending} onClick={apply}>
          Use these shares
        </Button>
        {isChanged && (
          <>
            <Button variant="default" onClick={() => setDraft(undefined)}>
              Undo
            </Button>
            <Text size="sm" role="status">
              Not used yet.
            </Text>
          </>
        )}
      </Group>
    </Section>
  );
}
