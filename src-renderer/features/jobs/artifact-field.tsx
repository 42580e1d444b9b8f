import { useRef, useState } from 'react';
import { ActionIcon, Group, Select } from '@mantine/core';
import { IconUpload } from '@tabler/icons-react';
import type { ArtifactView } from '#shared/domain/artifact.ts';
import { useApi } from '../../app/api-context.ts';
import { formatBytes } from '../../format/format.ts';
import { plainText } from '../../format/plain-text.ts';
import { useRead } from '../../queries/queries.ts';
import { fileSource } from '../artifacts/upload.ts';
import { startUpload } from '../artifacts/uploads.ts';

const none: readonly ArtifactView[] = [];
const idPattern = /^[0-9a-f]{8,64}$/;

/** What a specification calls it: its name where that means one, else its id. */
export function artifactRef({ id, name }: ArtifactView, all: readonly ArtifactView[]): string {
  const isPlain = !idPattern.test(name) && !/^[./\\]|=|^[a-z]:/i.test(name);
  const isOne = all.every((other) => other.id === id || other.name !== name);
  return isPlain && isOne ? name : id;
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
  const artifacts = useRead('artifacts').data?.artifacts ?? none;
  const usable = artifacts.filter(({ kind }) => !filesOnly || kind === 'file');
  const choices = usable.map((artifact) => ({
    value: artifactRef(artifact, artifacts),
    label: `${plainText(artifact.name)} (${artifact.kind === 'tree' ? 'folder, ' : ''}${formatBytes(artifact.bytes)})`,
    name: artifact.name,
  }));
  const isKnown = value === '' || choices.some((choice) => choice.value === value);
  const put = async (chosen: File | undefined): Promise<void> => {
    if (chosen === undefined) return;
    setUploading(true);
    const artifact = await startUpload(api, fileSource(chosen));
    setUploading(false);
    // The list has it in a moment.
    if (artifact !== null) onChange(artifactRef(artifact, artifacts), artifact.name);
  };
  return (
    <Group gap="xs" align="flex-end" wrap="nowrap">
      <Select
        style={{ flex: 1, minWidth: 0 }}
        label={label}
        {...(props.description === undefined ? {} : { description: props.description })}
        required={props.required ?? false}
        error={error}
        onBlur={onBlur}
        searchable
        placeholder={usable.length === 0 ? 'Upload a file' : 'Choose an artifact'}
        nothingFoundMessage="No artifact is called that"
        data={isKnown ? choices : [...choices, { value, label: plainText(value), name: value }]}
        value={value === '' ? null : value}
        limit={200}
        onChange={(ref) => {
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
