import { useMemo, useState } from 'react';
import { Alert, Anchor, Button, Group, Loader, Modal, Stack, Text, Title } from '@mantine/core';
import { useMediaQuery } from '@mantine/hooks';
import type { Preview } from '#shared/api/dashboard.ts';
import type { NodeView } from '#shared/api/schema.ts';
import type { CoveyError } from '#shared/errors.ts';
import type { NodeId } from '#shared/lib/ids.ts';
import { StatusMark } from '../../components/status.tsx';
import { plainText } from '../../format/plain-text.ts';
import { plural } from '../../format/format.ts';
import { useAction, useNodes } from '../../queries/queries.ts';
import { LayerStrip, type StripMachine } from './layer-strip.tsx';
import { layersTotal, type LibraryEntry } from './library.ts';
import {
  chooseLeader,
  editLayers,
  isTakeable,
  machinesOf,
  newLoadForm,
  shareByMemory,
  stripOf,
  toChoice,
  toggleMachine,
  type LoadForm,
} from './load-form.ts';
import { LoadOptions } from './load-options.tsx';
import { MachineChoice } from './machine-choice.tsx';
import { fill, loadBody, memoryByNode, refusalSentences, type MachineMemory } from './placement-view.ts';
import { usePreview } from './use-preview.ts';

/** Where a model goes: the machines, what each would need, and the layers of each. */
export function LoadDialog({
  entry,
  onClose,
}: {
  readonly entry: LibraryEntry;
  readonly onClose: () => void;
}) {
  const isNarrow = useMediaQuery('(max-width: 48em)', false);
  return (
    <Modal
      opened
      onClose={onClose}
      title={`Load ${plainText(entry.name)}`}
      size="xl"
      fullScreen={isNarrow}
      closeButtonProps={{ 'aria-label': 'Close without loading' }}
    >
      <LoadForm entry={entry} onClose={onClose} />
    </Modal>
  );
}

function LoadForm({ entry, onClose }: { readonly entry: LibraryEntry; readonly onClose: () => void }) {
  const nodes = useNodes().data?.nodes ?? [];
  const [form, setForm] = useState<LoadForm>(() => newLoadForm(entry.name));
  const body = loadBody(toChoice(form));
  const { preview, isChecking, error } = usePreview(body, nodes);
  const load = useAction('load', {
    failed: null,
    done: ({ model }) => `${plainText(model)} is being loaded.`,
    changes: ['deployments', 'nodes', 'status'],
  });

  const byId = useMemo(() => new Map(nodes.map((node) => [node.id, node])), [nodes]);
  const holders = new Set(entry.copies.map((copy) => copy.nodeId));
  // A refusal may name no machine: what was planned before it stays on the screen.
  const [planned, setPlanned] = useState<Preview | null>(null);
  if (preview !== null && preview.stages.length > 0 && preview !== planned) setPlanned(preview);
  const plan = preview !== null && preview.stages.length > 0 ? preview : planned;
  const memory = preview === null ? new Map<NodeId, MachineMemory>() : memoryByNode(preview);
  const machines = machinesOf(form, plan);
  const strip = stripOf(form, plan);
  const total = preview?.layersTotal ?? layersTotal(entry.info);
  const name = (id: NodeId): string => plainText(byId.get(id)?.name ?? id.slice(0, 12));
  const stripMachines = strip.machines.map((id, index): StripMachine => {
    const needs = memory.get(id);
    return {
      id,
      name: name(id),
      // A leader may lead without computing.
      min: index === 0 ? 0 : 1,
      leads: index === 0,
      isTooSmall: needs !== undefined && !fill(needs).fits,
    };
  });
  const sharesByHand = form.layers !== null;
  const isRight = isTakeable(form);
  const fits = preview?.ok === true && !isChecking && error === null && isRight;
  const refusal = load.error ?? error;

  return (
    <Stack gap="lg">
      <MachineChoice
        nodes={sorted(nodes, holders)}
        chosen={machines}
        holders={holders}
        memory={memory}
        isBusy={preview === null && isChecking}
        onToggle={(id) => setForm(toggleMachine(form, plan, id))}
      />

      <section aria-labelledby="load-layers">
        <Group justify="space-between" mb="xs">
          <Title order={3} size="h5" id="load-layers">
            Layers
          </Title>
          {sharesByHand && (
            <Button variant="subtle" size="compact-sm" mr={-8} onClick={() => setForm(shareByMemory(form))}>
              Share out by memory
            </Button>
          )}
        </Group>
        {strip.machines.length > 1 ? (
          <LayerStrip
            machines={stripMachines}
            layers={strip.layers}
            onChange={(layers) => setForm(editLayers(form, strip.machines, layers))}
          />
        ) : (
          <Text size="sm" c="dimmed">
            {strip.machines[0] === undefined
              ? 'Choose a machine.'
              : `${total === null ? 'All layers' : `All ${plural(total, 'layer')}`} on ${name(strip.machines[0])}. Choose a second machine to split the model.`}
          </Text>
        )}
      </section>

      <LoadOptions
        form={form}
        entry={entry}
        preview={preview}
        leaders={entry.copies
          .filter((copy) => byId.get(copy.nodeId)?.eligible === true)
          .map((copy) => ({ id: copy.nodeId, name: plainText(copy.nodeName) }))}
        onChange={setForm}
        onLeader={(leader) => setForm(chooseLeader(form, plan, leader))}
      />

      <div aria-live="polite">
        {refusal !== null ? (
          <Refusal title={load.error ? 'It was not loaded' : 'It cannot be checked'} error={refusal} />
        ) : preview !== null && !preview.ok && !isChecking ? (
          <Alert color="red" title="It cannot be loaded like this" variant="light">
            <Sentences sentences={refusalSentences(preview)} />
          </Alert>
        ) : (
          <Group gap="xs" mih="1.5rem">
            {isChecking && <Loader size="xs" />}
            {!isRight ? (
              <Text size="sm">Correct the options first.</Text>
            ) : isChecking ? (
              <Text size="sm">Checking whether it fits …</Text>
            ) : (
              fits && <StatusMark tone="good">It fits.</StatusMark>
            )}
          </Group>
        )}
      </div>

      <Group justify="flex-end">
        <Button variant="default" onClick={onClose}>
          Cancel
        </Button>
        <Button
          disabled={!fits}
          loading={load.isPending}
          onClick={() => load.mutate({ body }, { onSuccess: onClose })}
        >
          Load
        </Button>
      </Group>
    </Stack>
  );
}

/** Those that hold the model first, then those that can take work. */
function sorted(nodes: readonly NodeView[], holders: ReadonlySet<NodeId>): NodeView[] {
  const rank = (node: NodeView): number => (node.eligible ? 0 : 2) + (holders.has(node.id) ? 0 : 1);
  return [...nodes].sort((a, b) => rank(a) - rank(b) || a.name.localeCompare(b.name));
}

function Refusal({ title, error }: { readonly title: string; readonly error: CoveyError }) {
  const reasons = (error.details.reasons ?? []).map((reason) => reason.message);
  const isLoaded = error.code === 'already_loaded';
  return (
    <Alert color="red" title={title} variant="light">
      <Sentences sentences={reasons.length > 0 ? reasons : [error.message]} />
      {isLoaded && (
        <Text size="sm" mt="xs">
          Unload it first, or give this copy another name under <Anchor href="#load-name">Options</Anchor>.
        </Text>
      )}
    </Alert>
  );
}

function Sentences({ sentences }: { readonly sentences: readonly string[] }) {
  return (
    <Stack gap={4}>
      {sentences.map((sentence) => (
        <Text key={sentence} size="sm" style={{ overflowWrap: 'anywhere' }}>
          {plainText(sentence)}
        </Text>
      ))}
    </Stack>
  );
}
