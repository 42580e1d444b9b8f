import { Autocomplete } from '@mantine/core';
import {
  elementBytes,
  elementTypeSchema,
  kernelNameSchema,
  kernelTypes,
  type ElementType,
  type KernelName,
} from '#shared/domain/kernel-call.ts';
import { Section } from '../../components/page.tsx';
import { plural } from '../../format/format.ts';
import { plainText } from '../../format/plain-text.ts';
import { useDeployments } from '../../queries/queries.ts';
import { ArtifactField } from './artifact-field.tsx';
import {
  ChoiceField,
  LongTextField,
  NumberField,
  SwitchField,
  useField,
  useJobForm,
} from './form-context.tsx';
import type { JobDraft } from './job-draft.ts';
import classes from './jobs.module.css';
import { ProgramFields } from './program-fields.tsx';

/** What only this kind of work has. */
export function KindFields() {
  const { kind } = useJobForm().draft;
  switch (kind) {
    case 'kernel':
      return <KernelFields />;
    case 'inference':
      return <InferenceFields />;
    case 'map':
      return (
        <>
          <DatasetFields formats={['csv', 'jsonl', 'text', 'binary']} />
          <ProgramFields />
        </>
      );
    case 'command':
      return (
        <>
          <ProgramFields />
          <Section title="How often">
            <div className={classes['fields']}>
              <NumberField
                of="partitions"
                label="Runs"
                placeholder="1"
                description="Each with its {index}, from 0 on."
              />
            </div>
          </Section>
        </>
      );
    case 'gang':
      return (
        <>
          <ProgramFields />
          <Section title="Ranks" lead="Started together or not at all; when one fails, all end.">
            <div className={classes['fields']}>
              <NumberField of="ranks" label="Ranks" required />
              <NumberField
                of="perNode"
                label="Ranks on one machine at most"
                placeholder="as even as can be"
              />
              <NumberField of="ports" label="Free ports for each" placeholder="1" />
              <NumberField of="restarts" label="Starts after a failure" placeholder="0" />
            </div>
          </Section>
        </>
      );
  }
}

const kernelWords: Readonly<Record<KernelName, string>> = {
  sum: 'sum: all elements added up',
  xor: 'xor: of all elements, bit by bit',
  dot_product: 'dot_product: of two vectors',
  min: 'min: the smallest',
  max: 'max: the largest',
  histogram: 'histogram: how many lie in each bin',
};

/** `i32: whole, 4 bytes` */
function typeText(type: ElementType): string {
  const what = type.startsWith('f')
    ? 'with decimals'
    : type.startsWith('u')
      ? 'whole, never negative'
      : 'whole';
  return `${type}: ${what}, ${plural(elementBytes[type], 'byte')}`;
}

function KernelFields() {
  const { draft, set } = useJobForm();
  const kernel = kernelNameSchema.safeParse(draft.kernel).data ?? 'sum';
  const input = useField('input');
  const second = useField('second');
  return (
    <Section title="Kernel" lead="Built in: runs on all processors that a machine lends.">
      <div className={classes['fields']}>
        <div className={classes['wide']}>
          <ChoiceField
            of="kernel"
            label="Kernel"
            data={kernelNameSchema.options.map((value) => ({ value, label: kernelWords[value] }))}
          />
        </div>
        <ChoiceField
          of="type"
          label="Type of the elements"
          data={kernelTypes[kernel].map((value) => ({ value, label: typeText(value) }))}
        />
        <div className={classes['wide']}>
          <ArtifactField
            label="Input"
            description="A file of elements, little-endian, without a header."
            required
            filesOnly
            value={input.value}
            {...input.bound}
            onChange={(ref, name) => {
              const type = elementTypeSchema.safeParse(extensionOf(name)).data;
              set({
                input: ref,
                ...(type !== undefined && kernelTypes[kernel].includes(type) ? { type } : {}),
              });
            }}
          />
        </div>
        {kernel === 'dot_product' && (
          <div className={classes['wide']}>
            <ArtifactField
              label="Second vector"
              description="As long as the first."
              required
              filesOnly
              value={second.value}
              {...second.bound}
              onChange={second.change}
            />
          </div>
        )}
        {kernel === 'histogram' && (
          <>
            <NumberField of="bins" label="Bins" required />
            <NumberField of="low" label="From" decimals required />
            <NumberField
              of="high"
              label="To"
              description="Not itself part of the last bin."
              decimals
              required
            />
          </>
        )}
        <PartitionsField />
      </div>
    </Section>
  );
}

function PartitionsField() {
  return <NumberField of="partitions" label="Partitions" placeholder="by speed" />;
}

const formatWords: Readonly<Record<string, string>> = {
  csv: 'CSV',
  jsonl: 'JSON Lines',
  text: 'Lines of text',
  binary: 'Binary records',
};
const formatOf: Readonly<Record<string, string>> = {
  csv: 'csv',
  jsonl: 'jsonl',
  ndjson: 'jsonl',
  txt: 'text',
  bin: 'binary',
};

function DatasetFields({ formats }: { readonly formats: readonly string[] }) {
  const { draft, set } = useJobForm();
  const dataset = useField('dataset', 'dataset.artifact');
  return (
    <Section title="Records" lead="Ranges of them are given to the machines.">
      <div className={classes['fields']}>
        <div className={classes['wide']}>
          <ArtifactField
            label="File with the records"
            required
            filesOnly
            value={dataset.value}
            {...dataset.bound}
            onChange={(ref, name) => {
              const format = formatOf[extensionOf(name)];
              set({ dataset: ref, ...(format !== undefined && formats.includes(format) ? { format } : {}) });
            }}
          />
        </div>
        <ChoiceField
          of="format"
          field="dataset.format"
          label="What it holds"
          data={formats.map((value) => ({ value, label: formatWords[value] ?? value }))}
        />
        {draft.format === 'binary' && (
          <NumberField of="recordBytes" field="dataset.recordBytes" label="Bytes of a record" required />
        )}
        {draft.format === 'csv' && (
          <SwitchField
            of="header"
            label="The first line is a header"
            description="Every partition is given it."
          />
        )}
        <PartitionsField />
      </div>
    </Section>
  );
}

const taskWords: Readonly<Record<string, string>> = {
  chat: 'Answer a message',
  completion: 'Continue a text',
  embedding: 'Make an embedding',
};
const promptHelp: Readonly<Record<string, (draft: JobDraft) => string>> = {
  text: () => 'With {field} of the record; empty: the line itself.',
  jsonl: () => "With {field} of the record; empty: the record's messages, prompt or input.",
};

function InferenceFields() {
  const { draft } = useJobForm();
  const model = useField('model');
  const served = useDeployments().data?.deployments ?? [];
  return (
    <>
      <DatasetFields formats={['jsonl', 'text']} />
      <Section title="Model" lead="One that is loaded, asked about each record.">
        <div className={classes['fields']}>
          <Autocomplete
            label="Model"
            required
            placeholder={served.length === 0 ? 'Load one under Models first' : 'Name of a model'}
            data={[...new Set(served.map((one) => plainText(one.model)))]}
            value={model.value}
            {...model.bound}
            onChange={model.change}
          />
          <ChoiceField
            of="task"
            label="What it is to do"
            data={Object.entries(taskWords).map(([value, label]) => ({ value, label }))}
          />
          <div className={classes['wide']}>
            <LongTextField
              of="prompt"
              label="Prompt"
              description={promptHelp[draft.format]?.(draft) ?? ''}
              placeholder="Summarise in one sentence: {text}"
            />
          </div>
          {draft.task === 'chat' && (
            <div className={classes['wide']}>
              <LongTextField of="system" label="System message" />
            </div>
          )}
          <div className={classes['wide']}>
            <LongTextField
              of="parameters"
              label="Parameters of the requests"
              description="A JSON object."
              placeholder='{"max_tokens": 64, "temperature": 0}'
              mono
            />
          </div>
          <NumberField of="concurrency" label="Requests at once in a partition" placeholder="4" />
        </div>
      </Section>
    </>
  );
}

function extensionOf(name: string): string {
  return /\.([^.]+)$/.exec(name)?.[1]?.toLowerCase() ?? '';
}
