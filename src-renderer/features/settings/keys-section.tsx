import { Button, Group, Modal, Select, Text, TextInput } from '@mantine/core';
import { IconKey } from '@tabler/icons-react';
import { useState, type FormEvent } from 'react';
import type { KeyView } from '#shared/api/access.ts';
import { confirm } from '../../components/confirm.tsx';
import { CopyField } from '../../components/copy.tsx';
import { DataTable, type Column } from '../../components/data-table.tsx';
import { EmptyState, ErrorState, LoadingRows } from '../../components/states.tsx';
import { Section } from '../../components/page.tsx';
import { Ago, Name } from '../../components/text.tsx';
import { plainText } from '../../format/plain-text.ts';
import { useAction, useKeys } from '../../queries/queries.ts';

const scopes = [
  { value: 'inference', label: 'Use models' },
  { value: 'admin', label: 'Everything' },
] as const;
type Scope = (typeof scopes)[number]['value'];

/** Keys for apps: who has one, a new one, and taking one back. */
export function KeysSection() {
  const keys = useKeys();
  const [made, setMade] = useState<{ readonly name: string; readonly key: string } | null>(null);
  return (
    <Section
      title="API keys"
      lead="One for each app or person, so that each can be taken back alone. Only their hashes are kept."
      flush
    >
      <CreateKey onMade={setMade} />
      {keys.data !== undefined ? (
        <KeyTable keys={keys.data.keys} />
      ) : keys.isError ? (
        <div className="setting">
          <ErrorState
            title="The keys cannot be shown"
            error={keys.error}
            onRetry={() => void keys.refetch()}
          />
        </div>
      ) : (
        <div className="setting">
          <LoadingRows />
        </div>
      )}
      <Modal
        opened={made !== null}
        onClose={() => setMade(null)}
        title={`The key “${plainText(made?.name ?? '')}”`}
        closeButtonProps={{ 'aria-label': 'Close' }}
      >
        <Text size="sm" mb="sm">
          Copy it now: it is not kept and will not be shown again.
        </Text>
        <CopyField value={made?.key ?? ''} what="the key" />
        <Group justify="flex-end" mt="lg">
          <Button onClick={() => setMade(null)}>Done</Button>
        </Group>
      </Modal>
    </Section>
  );
}

function CreateKey({ onMade }: { readonly onMade: (made: { name: string; key: string }) => void }) {
  const [name, setName] = useState('');
  const [scope, setScope] = useState<Scope>('inference');
  const create = useAction('createKey', { failed: null, changes: ['keys'] });
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    create.mutate(
      { body: { name: name.trim(), scope } },
      {
        onSuccess: (made) => {
          setName('');
          onMade(made);
        },
      },
    );
  };
  return (
    <form className="create-key" onSubmit={submit}>
      <TextInput
        label="Name"
        placeholder="Phone, notebook, editor"
        size="sm"
        maxLength={64}
        value={name}
        onChange={(event) => setName(event.currentTarget.value)}
        error={create.error === null ? undefined : plainText(create.error.message)}
        className="create-key-name"
      />
      <Select
        label="May"
        size="sm"
        w={150}
        data={scopes}
        value={scope}
        onChange={(value) => setScope(value ?? 'inference')}
        allowDeselect={false}
      />
      <Button type="submit" size="sm" loading={create.isPending} disabled={name.trim() === ''}>
        Create key
      </Button>
    </form>
  );
}

function KeyTable({ keys }: { readonly keys: readonly KeyView[] }) {
  const revoke = useAction('revokeKey', {
    done: () => 'The key is revoked.',
    failed: 'Could not revoke the key',
    changes: ['keys'],
  });
  const ask = async (key: KeyView): Promise<void> => {
    const yes = await confirm({
      title: `Revoke “${plainText(key.name)}”?`,
      body: 'Whatever uses this key is cut off at once. It cannot be brought back; a new one can be made.',
      action: 'Revoke',
      danger: true,
    });
    if (yes) revoke.mutate({ params: { id: key.id } });
  };
  const columns: readonly Column<KeyView>[] = [
    {
      id: 'name',
      title: 'Name',
      width: 'minmax(76px, 2fr)',
      sortBy: (key) => key.name,
      cell: (key) => <Name>{key.name}</Name>,
    },
    {
      id: 'scope',
      title: 'May',
      width: '98px',
      sortBy: (key) => key.scope,
      cell: (key) => scopes.find(({ value }) => value === key.scope)?.label,
    },
    {
      id: 'created',
      title: 'Created',
      width: '92px',
      sortBy: (key) => key.createdAt,
      cell: (key) => <Ago at={key.createdAt} />,
    },
    {
      id: 'used',
      title: 'Last used',
      width: '104px',
      sortBy: (key) => key.lastUsedAt,
      cell: (key) => (key.lastUsedAt === null ? 'Never' : <Ago at={key.lastUsedAt} />),
    },
    {
      id: 'revoke',
      title: 'Revoke',
      titleHidden: true,
      width: '100px',
      align: 'right',
      pinned: true,
      cell: (key) => (
        <Button
          size="compact-sm"
          variant="subtle"
          color="red"
          aria-label={`Revoke ${plainText(key.name)}`}
          onClick={() => void ask(key)}
        >
          Revoke
        </Button>
      ),
    },
  ];
  return (
    <DataTable
      label="API keys"
      rows={keys}
      columns={columns}
      rowKey={(key) => key.id}
      maxHeight={300}
      minWidth={490}
      empty={
        <EmptyState icon={IconKey} title="No keys yet">
          Apps on this machine need none. Create one before you open Covey to your network.
        </EmptyState>
      }
    />
  );
}
