import { Button, Group, Text } from '@mantine/core';
import { useState } from 'react';
import { confirm } from '../../components/confirm.tsx';
import { CopyField } from '../../components/copy.tsx';
import { ErrorState, LoadingRows } from '../../components/states.tsx';
import { Section } from '../../components/page.tsx';
import { useAction, useRead } from '../../queries/queries.ts';

/** The secret with which machines join by themselves. It is asked for only when somebody wants to see it. */
export function SecretSection() {
  const [shown, setShown] = useState(false);
  return (
    <Section
      title="Cluster secret"
      lead="Machines that hold it join by themselves, without a person at either side. Removing a machine makes a new one."
      actions={
        <Button size="xs" variant="default" onClick={() => setShown(!shown)} aria-expanded={shown}>
          {shown ? 'Hide' : 'Show'}
        </Button>
      }
    >
      {shown ? (
        <Secret />
      ) : (
        <Text size="sm" c="dimmed">
          Whoever has it can join. Give it only to machines that are yours.
        </Text>
      )}
    </Section>
  );
}

function Secret() {
  const query = useRead('clusterSecret');
  const changes = ['clusterSecret'] as const;
  const make = useAction('newClusterSecret', {
    done: () => 'There is a new cluster secret.',
    failed: 'Could not make a secret',
    changes,
  });
  const drop = useAction('dropClusterSecret', {
    done: () => 'There is no cluster secret any more.',
    failed: 'Could not drop the secret',
    changes,
  });
  if (query.isError) {
    return (
      <ErrorState
        title="The secret cannot be shown"
        error={query.error}
        onRetry={() => void query.refetch()}
      />
    );
  }
  if (query.data === undefined) return <LoadingRows rows={2} />;
  const { secret } = query.data;
  const renew = async (): Promise<void> => {
    const yes =
      secret === null ||
      (await confirm({
        title: 'Make a new secret?',
        body: 'The one of now stops working for machines that have not joined yet. Members get the new one.',
        action: 'Make a new one',
      }));
    if (yes) make.mutate({});
  };
  const remove = async (): Promise<void> => {
    const yes = await confirm({
      title: 'Drop the cluster secret?',
      body: 'Machines join by invitation or approval only, until you make another.',
      action: 'Drop',
      danger: true,
    });
    if (yes) drop.mutate({});
  };
  return (
    <div className="setting-stack">
      {secret === null ? (
        <Text size="sm">There is none: machines join by invitation or approval only.</Text>
      ) : (
        <CopyField value={secret} what="the cluster secret" />
      )}
      <Group gap="sm">
        <Button size="xs" variant="default" loading={make.isPending} onClick={() => void renew()}>
          {secret === null ? 'Make a secret' : 'Make a new one'}
        </Button>
        {secret === null ? null : (
          <Button
            size="xs"
            variant="subtle"
            color="red"
            loading={drop.isPending}
            onClick={() => void remove()}
          >
            Drop it
          </Button>
        )}
      </Group>
    </div>
  );
}
