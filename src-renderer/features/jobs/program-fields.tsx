import {
  ActionIcon,
  Button,
  Checkbox,
  PasswordInput,
  SegmentedControl,
  Text,
  TextInput,
} from '@mantine/core';
import { IconPlus, IconX } from '@tabler/icons-react';
import type { ReactNode } from 'react';
import { Section } from '../../components/page.tsx';
import { ArtifactField } from './artifact-field.tsx';
import {
  ChoiceField,
  LongTextField,
  NumberField,
  TextField,
  problemText,
  useJobForm,
} from './form-context.tsx';
import type { Pair } from './job-draft.ts';
import classes from './jobs.module.css';

const variables: Readonly<Record<string, string>> = {
  command: '{index} {count} {attempt} {cpus} {input} {input.NAME} {output}',
  map: '{index} {from} {to} {attempt} {cpus} {input} {input.NAME} {output}',
  gang: '{index} {count} {attempt} {cpus} {input} {input.NAME} {output}',
};
const environment: Readonly<Record<string, string>> = {
  command: 'COVEY_INDEX COVEY_COUNT COVEY_ATTEMPT COVEY_CPUS COVEY_OUTPUT',
  map: 'COVEY_INDEX COVEY_FROM COVEY_TO COVEY_ATTEMPT COVEY_CPUS',
  gang: 'COVEY_RANK COVEY_WORLD_SIZE COVEY_HOSTS COVEY_PORTS COVEY_OUTPUT',
};

/** What is run, with what, and what is kept of it. */
export function ProgramFields() {
  const { draft, set } = useJobForm();
  const { kind, runs } = draft;
  return (
    <>
      <Section
        title="Program"
        lead={
          runs === 'command' ? (
            <>
              In arguments and variables stand <code>{variables[kind]}</code>
            </>
          ) : (
            <>
              It finds in its environment <code>{environment[kind]}</code>
            </>
          )
        }
      >
        <div className={classes['rows']}>
          <div>
            <SegmentedControl
              aria-label="What is run"
              value={runs}
              data={[
                { value: 'command', label: 'A command' },
                { value: 'script', label: 'A script' },
              ]}
              onChange={(value) => set({ runs: value })}
            />
          </div>
          {runs === 'command' ? (
            <TextField
              of="command"
              label="Program and arguments"
              description="Without a shell; quote what has blanks. Programs of your own come in as inputs."
              placeholder={kind === 'map' ? 'tr a-z A-Z' : './render {index} {output}/frame.png'}
              required
              mono
            />
          ) : (
            <>
              <LongTextField
                of="script"
                label="Script"
                placeholder={'echo "part $COVEY_INDEX"'}
                required
                mono
              />
              <TextField of="interpreter" label="Interpreter" placeholder="/bin/sh" mono />
            </>
          )}
          {kind === 'map' && (
            <ChoiceField
              of="per"
              label="Run it"
              data={[
                { value: 'chunk', label: 'once for many records, on its standard input' },
                { value: 'record', label: 'once for each record' },
              ]}
            />
          )}
        </div>
      </Section>
      <Section title="Files" lead="Found by the program in its working directory.">
        <div className={classes['rows']}>
          <Inputs />
          {kind !== 'map' && <Outputs />}
        </div>
      </Section>
      <Section title="Surroundings" lead="Nothing of the machine's own environment is seen.">
        <div className={classes['rows']}>
          <Pairs of="env" title="Variables" add="Add a variable" />
          <Pairs of="secrets" title="Secrets" add="Add a secret" secret />
          <div className={classes['fields']}>
            <NumberField
              of="limitMiB"
              field="limits.memoryBytes"
              label="Memory limit"
              placeholder="1,024 MiB"
              suffix=" MiB"
            />
            <NumberField
              of="limitProcesses"
              field="limits.processes"
              label="Processes at most"
              placeholder="256"
            />
            <NumberField
              of="limitOutputMiB"
              field="limits.outputBytes"
              label="Output at most"
              placeholder="1,024 MiB"
              suffix=" MiB"
            />
            <ChoiceField
              of="network"
              label="Network"
              data={[
                { value: 'none', label: 'none' },
                { value: 'lan', label: "the machine's, where allowed" },
              ]}
            />
          </div>
        </div>
      </Section>
    </>
  );
}

function Inputs() {
  const { draft, set, problem, leave } = useJobForm();
  const { inputs } = draft;
  const change = (index: number, changes: Partial<(typeof inputs)[number]>): void =>
    set({ inputs: inputs.map((input, at) => (at === index ? { ...input, ...changes } : input)) });
  return (
    <List
      title="Inputs"
      add="Add an input"
      onAdd={() => set({ inputs: [...inputs, { artifact: '', path: '' }] })}
    >
      {inputs.map((input, index) => (
        <div className={classes['row']} key={index}>
          <ArtifactField
            label={`Artifact ${index + 1}`}
            value={input.artifact}
            error={problemText(problem(`inputs.${index}.artifact`))}
            onBlur={() => leave(`inputs.${index}.artifact`)}
            onChange={(artifact, name) =>
              change(index, { artifact, ...(input.path === '' ? { path: name } : {}) })
            }
          />
          <TextInput
            label={`Path ${index + 1} for the program`}
            value={input.path}
            error={problemText(problem(`inputs.${index}.path`))}
            onBlur={() => leave(`inputs.${index}.path`)}
            onChange={(event) => change(index, { path: event.currentTarget.value })}
          />
          <RemoveButton
            label={`Remove input ${index + 1}`}
            onClick={() => set({ inputs: inputs.filter((_, at) => at !== index) })}
          />
        </div>
      ))}
    </List>
  );
}

function Outputs() {
  const { draft, set, problem, leave } = useJobForm();
  const { outputs } = draft;
  const change = (index: number, changes: Partial<(typeof outputs)[number]>): void =>
    set({ outputs: outputs.map((output, at) => (at === index ? { ...output, ...changes } : output)) });
  return (
    <List
      title="Outputs to keep"
      add="Add an output"
      onAdd={() => set({ outputs: [...outputs, { path: '', optional: false }] })}
    >
      {outputs.map((output, index) => (
        <div className={classes['row']} key={index}>
          <TextInput
            label={`Path ${index + 1} in {output}`}
            placeholder="frame.png"
            value={output.path}
            error={problemText(problem(`outputs.${index}.path`))}
            onBlur={() => leave(`outputs.${index}.path`)}
            onChange={(event) => change(index, { path: event.currentTarget.value })}
          />
          <Checkbox
            mt={32}
            label="may be missing"
            aria-label={`Output ${index + 1} may be missing`}
            checked={output.optional}
            onChange={(event) => change(index, { optional: event.currentTarget.checked })}
          />
          <RemoveButton
            label={`Remove output ${index + 1}`}
            onClick={() => set({ outputs: outputs.filter((_, at) => at !== index) })}
          />
        </div>
      ))}
    </List>
  );
}

function Pairs({
  of,
  title,
  add,
  secret = false,
}: {
  readonly of: 'env' | 'secrets';
  readonly title: string;
  readonly add: string;
  readonly secret?: boolean;
}) {
  const { draft, set, problem, leave } = useJobForm();
  const pairs = draft[of];
  const update = (next: readonly Pair[]): void => set({ [of]: next });
  const change = (index: number, changes: Partial<Pair>): void =>
    update(pairs.map((pair, at) => (at === index ? { ...pair, ...changes } : pair)));
  const Value = secret ? PasswordInput : TextInput;
  const word = secret ? 'secret' : 'variable';
  return (
    <List title={title} add={add} onAdd={() => update([...pairs, { name: '', value: '' }])}>
      {secret && pairs.length > 0 && (
        <Text size="xs" c="dimmed">
          In files that only the program can read; a variable NAME_FILE has the path.
        </Text>
      )}
      {pairs.map((pair, index) => (
        <div className={classes['row']} key={index}>
          <TextInput
            label={`Name of ${word} ${index + 1}`}
            value={pair.name}
            spellCheck={false}
            autoComplete="off"
            error={problemText(problem(`${of}.${pair.name}`))}
            onBlur={() => leave(`${of}.${pair.name}`)}
            onChange={(event) => change(index, { name: event.currentTarget.value })}
          />
          <Value
            label={`Value of ${word} ${index + 1}`}
            value={pair.value}
            autoComplete="off"
            onChange={(event) => change(index, { value: event.currentTarget.value })}
          />
          <RemoveButton
            label={`Remove ${word} ${index + 1}`}
            onClick={() => update(pairs.filter((_, at) => at !== index))}
          />
        </div>
      ))}
    </List>
  );
}

function List(props: {
  readonly title: string;
  readonly add: string;
  readonly onAdd: () => void;
  readonly children: ReactNode;
}) {
  return (
    <div className={classes['rows']} role="group" aria-label={props.title}>
      <Text size="sm" fw={560}>
        {props.title}
      </Text>
      {props.children}
      <div>
        <Button
          size="compact-sm"
          variant="default"
          leftSection={<IconPlus size={14} aria-hidden />}
          onClick={props.onAdd}
        >
          {props.add}
        </Button>
      </div>
    </div>
  );
}

function RemoveButton({ label, onClick }: { readonly label: string; readonly onClick: () => void }) {
  return (
    <ActionIcon variant="subtle" color="gray" size={36} mt={25} aria-label={label} onClick={onClick}>
      <IconX size={16} />
    </ActionIcon>
  );
}
