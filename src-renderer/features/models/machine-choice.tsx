import { Badge, Checkbox, Group, Skeleton, Stack, Text, Title } from '@mantine/core';
import type { NodeView } from '#shared/api/schema.ts';
import type { NodeId } from '#shared/lib/ids.ts';
import { plainText } from '../../format/plain-text.ts';
import { MemoryBar } from './memory-bar.tsx';
import type { MachineMemory } from './placement-view.ts';
import classes from './machine-choice.module.css';

/** Which machines take part, each with what the load needs there. One that cannot says why. */
export function MachineChoice({
  nodes,
  chosen,
  holders,
  memory,
  isBusy,
  onToggle,
}: {
  readonly nodes: readonly NodeView[];
  readonly chosen: readonly NodeId[];
  readonly holders: ReadonlySet<NodeId>;
  readonly memory: ReadonlyMap<NodeId, MachineMemory>;
  readonly isBusy: boolean;
  readonly onToggle: (id: NodeId) => void;
}) {
  return (
    <section aria-labelledby="load-machines">
      <Title order={3} size="h5" mb="xs" id="load-machines">
        Machines
      </Title>
      <ul className={classes['list']}>
        {nodes.map((node) => {
          const name = plainText(node.name);
          const isIn = chosen.includes(node.id);
          const needs = memory.get(node.id);
          return (
            <li key={node.id} className={classes['machine']} data-in={isIn || undefined}>
              <Checkbox
                className={classes['choice'] ?? ''}
                checked={isIn}
                disabled={!node.eligible && !isIn}
                onChange={() => onToggle(node.id)}
                label={
                  <Group component="span" gap="xs" wrap="wrap">
                    <span className={classes['name']}>{name}</span>
                    {holders.has(node.id) && (
                      <Badge variant="outline" color="gray" size="sm" tt="none" component="span">
                        has the file
                      </Badge>
                    )}
                  </Group>
                }
              />
              <div className={classes['needs']}>
                {!node.eligible ? (
                  <Text size="xs">It {plainText(node.ineligibleReasons.join(', and it '))}.</Text>
                ) : isIn && needs !== undefined ? (
                  <MemoryBar memory={needs} label={`Memory on ${name}`} />
                ) : isIn && isBusy ? (
                  <Skeleton height={10} />
                ) : (
                  <Text size="xs" c="dimmed">
                    {isIn ? 'What it needs here is not known yet.' : 'Not used.'}
                  </Text>
                )}
              </div>
            </li>
          );
        })}
      </ul>
      {nodes.length === 0 && (
        <Stack>
          <Text size="sm">There is no machine yet. Add one under Machines.</Text>
        </Stack>
      )}
    </section>
  );
}
