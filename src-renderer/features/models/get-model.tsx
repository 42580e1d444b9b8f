import { Anchor, Button, Group, Modal, Select, Stack, Text, TextInput } from '@mantine/core';
import { useState, type FormEvent } from 'react';
import type { NodeId } from '#shared/lib/ids.ts';
import { ErrorState } from '../../components/states.tsx';
import { pathProblem } from '../../format/file-path.ts';
import { plainText } from '../../format/plain-text.ts';
import { useAction, useNodes } from '../../queries/queries.ts';
import { hubSource, sourceProblem } from './model-source.ts';
import { watchTransfers } from './transfers.tsx';

/** Where a model comes from: the hub, or a file that a machine has already. */
export function GetModel({
  kind,
  onClose,
}: {
  readonly kind: 'pull' | 'import';
  readonly onClose: () => void;
}) {
  return (
    <Modal
      opened
      onClose={onClose}
      title={kind === 'pull' ? 'Download a model' : 'Import a file'}
      closeButtonProps={{ 'aria-label': 'Close' }}
    >
      {kind === 'pull' ? <PullForm onClose={onClose} /> : <ImportForm onClose={onClose} />}
    </Modal>
  );
}

function PullForm({ onClose }: { readonly onClose: () => void }) {
  const [source, setSource] = useState('');
  const machine = useMachine();
  const pull = useAction('pullModel', { failed: null });
  // Of what stood there when it was to be sent: nobody is told off while typing.
  const [problem, setProblem] = useState<string | null>(null);
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    const wrong = sourceProblem(source);
    setProblem(wrong);
    if (wrong !== null) return;
    const body = {
      source: hubSource(source),
      ...(machine.id === null ? {} : { node: machine.id }),
    };
    pull.mutate(
      { body },
      {
        onSuccess: ({ id }) => {
          watchTransfers([id]);
          onClose();
        },
      },
    );
  };
  return (
    <form onSubmit={submit}>
      <Stack>
        <TextInput
          label="Model"
          description="Owner and repository on the hub, and the file where it has several."
          placeholder="hf:owner/repository/file.gguf"
          required
          data-autofocus
          maxLength={1024}
          value={source}
          onChange={(event) => {
            setSource(event.currentTarget.value);
            setProblem(null);
          }}
          error={problem ?? (pull.error?.details.field === 'source' ? plainText(pull.error.message) : null)}
        />
        <MachineSelect machine={machine} label="Onto which machine" />
        <Text size="sm" c="dimmed">
          The machine fetches it itself, checks its hash, and goes on where it was if it is interrupted.
        </Text>
        {pull.error !== null && pull.error.details.field !== 'source' && (
          <ErrorState title="It was not started" error={pull.error} />
        )}
        <Buttons
          action="Download"
          isBusy={pull.isPending}
          isComplete={source.trim() !== ''}
          onClose={onClose}
        />
      </Stack>
    </form>
  );
}

function ImportForm({ onClose }: { readonly onClose: () => void }) {
  const [path, setPath] = useState('');
  const [name, setName] = useState('');
  const machine = useMachine();
  const start = useAction('importModel', { failed: null });
  const [problem, setProblem] = useState<string | null>(null);
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    if (machine.id === null) return;
    const wrong = pathProblem(path, machine.platform);
    setProblem(wrong);
    if (wrong !== null) return;
    const body = {
      node: machine.id,
      path: path.trim(),
      ...(name.trim() === '' ? {} : { name: name.trim() }),
    };
    start.mutate(
      { body },
      {
        onSuccess: ({ id }) => {
          watchTransfers([id]);
          onClose();
        },
      },
    );
  };
  return (
    <form onSubmit={submit}>
      <Stack>
        <MachineSelect machine={machine} label="Machine that has the file" />
        <TextInput
          label="Path of the file there"
          description="A .gguf file, or the first one of several parts. It is copied into the library."
          placeholder={machine.platform === 'win32' ? 'C:\\models\\model.gguf' : '/home/me/models/model.gguf'}
          required
          data-autofocus
          maxLength={4096}
          value={path}
          onChange={(event) => {
            setPath(event.currentTarget.value);
            setProblem(null);
          }}
          error={problem ?? (start.error?.details.field === 'path' ? plainText(start.error.message) : null)}
        />
        <TextInput
          label="Name"
          description="Empty: as the file is called."
          maxLength={256}
          value={name}
          onChange={(event) => setName(event.currentTarget.value)}
        />
        {start.error !== null && start.error.details.field !== 'path' && (
          <ErrorState title="It was not started" error={start.error} />
        )}
        <Buttons
          action="Import"
          isBusy={start.isPending}
          isComplete={path.trim() !== '' && machine.id !== null}
          onClose={onClose}
        />
      </Stack>
    </form>
  );
}

interface Machine {
  readonly id: NodeId | null;
  /** As Node.js calls its system; null: not known. */
  readonly platform: string | null;
  readonly options: readonly { readonly value: string; readonly label: string; readonly disabled: boolean }[];
  readonly choose: (id: string | null) => void;
}

/** The machine that gets the file: the connected one with the most room unless somebody chooses. */
function useMachine(): Machine {
  const nodes = useNodes().data?.nodes ?? [];
  const [chosen, choose] = useState<string | null>(null);
  const room = (id: string | null): number =>
    nodes.find((node) => node.id === id)?.telemetry?.diskFreeBytes ?? 0;
  const connected = nodes.filter((node) => node.connected).sort((a, b) => room(b.id) - room(a.id));
  const node = connected.find(({ id }) => id === chosen) ?? connected[0];
  return {
    id: node?.id ?? null,
    platform: node?.hardware?.os.platform ?? null,
    options: nodes.map(({ id, name, connected: isThere }) => ({
      value: id,
      label: isThere ? plainText(name) : `${plainText(name)} (not connected)`,
      disabled: !isThere,
    })),
    choose,
  };
}

function MachineSelect({ machine, label }: { readonly machine: Machine; readonly label: string }) {
  if (machine.options.length === 0) {
    return (
      <Text size="sm">
        There is no machine yet: <Anchor href="#/machines">add one</Anchor> first.
      </Text>
    );
  }
  return (
    <Select
      label={label}
      data={machine.options}
      value={machine.id}
      onChange={machine.choose}
      allowDeselect={false}
    />
  );
}

function Buttons(props: {
  readonly action: string;
  readonly isBusy: boolean;
  readonly isComplete: boolean;
  readonly onClose: () => void;
}) {
  return (
    <Group justify="flex-end">
      <Button variant="default" onClick={props.onClose}>
        Cancel
      </Button>
      <Button type="submit" loading={props.isBusy} disabled={!props.isComplete}>
        {props.action}
      </Button>
    </Group>
  );
}
