import { useState } from 'react';
import { Button, SegmentedControl, Stack } from '@mantine/core';
import { IconDevicesPlus } from '@tabler/icons-react';
import { create } from 'zustand';
import { usePlace } from '../../app/router.ts';
import { Page, Section } from '../../components/page.tsx';
import { EmptyState, ErrorState, LoadingState } from '../../components/states.tsx';
import { useNodes, useStatus } from '../../queries/queries.ts';
import { useIsStale } from '../../stores/connection.ts';
import { AddMachine } from './add-machine.tsx';
import { LinkMatrix } from './link-matrix.tsx';
import { MachineCard } from './machine-card.tsx';
import { MachineDetail, NoSuchMachine } from './machine-detail.tsx';
import { MachineTable } from './machine-table.tsx';
import classes from './nodes.module.css';
import { Blocked, Pending } from './pending.tsx';

/** null: by how many there are. */
const useView = create<{ readonly view: 'cards' | 'table' | null }>(() => ({ view: null }));
/** More than this are easier to find in a table. */
const manyMachines = 24;

/** The machines of the covey, those that want to be, and the links between them; or one of them alone. */
export function NodesPage() {
  const { rest } = usePlace();
  const { data, error, refetch } = useNodes();
  const controllerId = useStatus().data?.nodeId;
  const chosen = useView(({ view }) => view);
  const [adding, setAdding] = useState(false);
  const isStale = useIsStale();

  const [wanted] = rest;
  if (wanted !== undefined && data !== undefined) {
    const node = data.nodes.find(({ id }) => id === wanted);
    if (node === undefined) return <NoSuchMachine />;
    return <MachineDetail node={node} isController={node.id === controllerId} />;
  }
  const nodes = [...(data?.nodes ?? [])].sort((a, b) => a.name.localeCompare(b.name));
  const view = chosen ?? (nodes.length > manyMachines ? 'table' : 'cards');
  const add = (
    <Button
      leftSection={<IconDevicesPlus size={16} aria-hidden />}
      disabled={isStale}
      onClick={() => setAdding(true)}
    >
      Add a machine
    </Button>
  );
  return (
    <Page
      title="Machines"
      lead="The computers that work together."
      actions={
        <>
          {nodes.length > 0 && (
            <SegmentedControl
              aria-label="Show machines as"
              data={[
                { value: 'cards', label: 'Cards' },
                { value: 'table', label: 'Table' },
              ]}
              value={view}
              onChange={(value) => useView.setState({ view: value })}
            />
          )}
          {add}
        </>
      }
    >
      <Stack gap="md">
        <Pending />
        {error !== null && data === undefined ? (
          <ErrorState title="The machines are not known" error={error} onRetry={() => void refetch()} />
        ) : data === undefined ? (
          <LoadingState what="the machines" />
        ) : nodes.length === 0 ? (
          <EmptyState icon={IconDevicesPlus} title="No machine has joined yet" action={add}>
            This controller decides and serves; the computing is done by machines that join it. This computer
            can be one of them too.
          </EmptyState>
        ) : view === 'cards' ? (
          <div className={classes['cards']}>
            {nodes.map((node) => (
              <MachineCard key={node.id} node={node} isController={node.id === controllerId} />
            ))}
          </div>
        ) : (
          <Section title="All machines" flush>
            <MachineTable nodes={nodes} />
          </Section>
        )}
        <LinkMatrix nodes={nodes} />
        <Blocked />
      </Stack>
      {adding && data !== undefined && <AddMachine nodes={nodes} onClose={() => setAdding(false)} />}
    </Page>
  );
}
