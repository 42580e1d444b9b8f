import { useRef, useState } from 'react';
import { ActionIcon, Group, Select } from '@mantine/core';
import { useDebouncedValue } from '@mantine/hooks';
import { IconUpload } from '@tabler/icons-react';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import type { ArtifactView } from '#shared/domain/artifact.ts';
import { useApi } from '../../app/api-context.ts';
import { formatBytes } from '../../format/format.ts';
import { plainText } from '../../format/plain-text.ts';
import { readKey } from '../../queries/queries.ts';
import { fileSource } from '../artifacts/upload.ts';
import { startUpload } from '../artifacts/uploads.ts';

const none: readonly ArtifactView[] = [];
/** As many are offered: others are found by typing. */
const mostShown = '200';
const typingMs = 200;
const idPattern = /^[0-9a-f]{8,64}$/;

/** What a specification calls it: its name where that means one, else its id. */
export function artifactRef({ id, name }: ArtifactView, all: readonly ArtifactView[]): string {
  const isPlain = !idPattern.test(name) && !/^[./\\]|=|^[a-z]:/i.test(name);
  const isOne = all.every((other) => other.id === id || other.name !== name);
  return isPlain && isOne ? name : id;
}

/** Those used last of which the name has this in it. */
function useArtifactChoices(text: string) {
  const api = useApi();
  const query = { limit: mostShown, ...(text === '' ? {} : { text }) };
  return useQuery({
    queryKey: readKey('artifacts', { query }),
    queryFn: ({ signal }) => api.call('artifacts', { query, signal }),
    placeholderData: keepPreviousData,
  }).data;
}

/** One of the covey's artifacts, or a file that is uploaded on the spot. */
export function ArtifactField(props: {
  readonly label: string;
  readonly description?: string;
  readonly required?: boolean;
  /** Files only: what is read record by record is no folder. */
  readonly filesOnly?: boolean;
  readonly value: string;
  readonly error: string | null;
  readonly onBlur: () => void;
  /** @param name of the file, to tell what it holds */
  readonly onChange: (ref: string, name: string) => void;
}) {
  const { value, onChange, filesOnly = false, label, error, onBlur } = props;
  const api = useApi();
  const file = useRef<HTMLInputElement>(null);
  const [isUploading, setUploading] = useState(false);
  /** Since something was chosen. */
  const [typed, setTyped] = useState('');
  const [text] = useDebouncedValue(typed.trim(), typingMs);
  const artifacts = useArtifactChoices(text)?.artifacts ?? none;
  const newest = useArtifactChoices('');
  // A name that is there once can stand for it, as far as all are known.
  const isAll = newest?.total === newest?.artifacts.length;
  const refOf = (artifact: ArtifactView): string =>
    isAll ? artifactRef(artifact, newest?.artifacts ?? none) : artifact.id;
  const usable = artifacts.filter(({ kind }) => !filesOnly || kind === 'file');
  const choices = usable.map((artifact) => ({
    value: refOf(artifact),
    label: `${plainText(artifact.name)} (${artifact.kind === 'tree' ? 'folder, ' : ''}${formatBytes(artifact.bytes)})`,
    name: artifact.name,
  }));
  const own = choices.find((choice) => choice.value === value);
  // It keeps its words while others are looked for.
  const [last, setLast] = useState(own);
  if (own !== undefined && (own.value !== last?.value || own.label !== last.label)) setLast(own);
  const chosen = last?.value === value ? last : { value, label: plainText(value), name: value };
  const put = async (chosen: File | undefined): Promise<void> => {
    if (chosen === undefined) return;
    setUploading(true);
    const artifact = await startUpload(api, fileSource(chosen));
    setUploading(false);
    // The list has it in a moment.
    if (artifact !== null) onChange(refOf(artifact), artifact.name);
  };
  return (
    <Group gap="xs" align="flex-end" wrap="nowrap">
      <Select
        style={{ flex: 1, minWidth: 0 }}
        label={label}
        {...(props.description === undefined ? {} : { description: props.description })}
        required={props.required ?? false}
        error={error}
        onBlur={() => {
          setTyped('');
          onBlur();
        }}
        searchable
        placeholder={usable.length === 0 ? 'Upload a file' : 'Choose an artifact'}
        nothingFoundMessage="No artifact is called that"
        data={own !== undefined || value === '' ? choices : [...choices, chosen]}
        value={value === '' ? null : value}
        // The controller has looked through them already.
        filter={({ options }) => options}
        onInput={(event) => setTyped(event.currentTarget.value)}
        onChange={(ref) => {
          setTyped('');
          if (ref !== null) onChange(ref, choices.find((choice) => choice.value === ref)?.name ?? ref);
        }}
      />
      <ActionIcon
        variant="default"
        size={36}
        mb={error === null ? 0 : 20}
        loading={isUploading}
        aria-label={`Upload a file: ${label}`}
        title="Upload a file"
        onClick={() => file.current?.click()}
      >
        <IconUpload size={16} />
      </ActionIcon>
      <input
        ref={file}
        type="file"
        hidden
        aria-label={`File to upload: ${label}`}
        onChange={(event) => {
          const [chosen] = event.currentTarget.files ?? [];
          event.currentTarget.value = '';
          void put(chosen);
        }}
      />
    </Group>
  );
}
