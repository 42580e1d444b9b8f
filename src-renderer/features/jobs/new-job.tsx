import { useMemo, useState, type FormEvent } from 'react';
import { Alert, Anchor, Button, Collapse, MultiSelect, Radio, SegmentedControl, Text } from '@mantine/core';
import { IconArrowLeft, IconChevronDown, IconChevronRight, IconPlayerPlay } from '@tabler/icons-react';
import { jobSpecSchema, type JobKind } from '#shared/domain/job-spec.ts';
import type { CoveyError } from '#shared/errors.ts';
import { hrefTo, navigate } from '../../app/router.ts';
import { CodeBlock } from '../../components/copy.tsx';
import { Page, Section } from '../../components/page.tsx';
import { ErrorState, LoadingState } from '../../components/states.tsx';
import { plainText } from '../../format/plain-text.ts';
import { useAction, useNodes, useRead } from '../../queries/queries.ts';
import { useIsStale } from '../../stores/connection.ts';
import { UploadList } from '../artifacts/upload-list.tsx';
import { DistributionEditor } from './distribution-editor.tsx';
import { evenShares } from './distribution.ts';
import {
  ChoiceField,
  JobFormContext,
  NumberField,
  problemText,
  SwitchField,
  TextField,
  useJobForm,
  type JobForm,
} from './form-context.tsx';
import {
  checkDraft,
  draftOf,
  emptyDraft,
  isProgram,
  problemOf,
  type CheckedDraft,
  type JobDraft,
} from './job-draft.ts';
import { kindWords } from './job-words.ts';
import classes from './jobs.module.css';
import { KindFields } from './kind-fields.tsx';
import { ProgramsForbidden } from './programs-forbidden.tsx';
import { runCommand } from './run-command.ts';
import { createSubmissionKeys } from './submission-key.ts';

/** @param from the job whose specification it begins with */
export function NewJob({ from }: { readonly from: string | null }) {
  return from === null ? <Form first={emptyDraft} /> : <FormLike id={from} />;
}

function FormLike({ id }: { readonly id: string }) {
  const { data, error, refetch } = useRead('jobSpec', { params: { job: id } });
  if (error !== null) {
    return <ErrorState title="That job is not known" error={error} onRetry={() => void refetch()} />;
  }
  if (data === undefined) return <LoadingState what="the specification" />;
  const spec = jobSpecSchema.safeParse(data);
  return <Form first={spec.success ? draftOf(spec.data) : emptyDraft} />;
}

const kinds: readonly (readonly [JobKind, string])[] = [
  ['kernel', 'Sum, minimum, histogram and the like over a file of numbers.'],
  ['command', 'A program, once or many times, each with its number.'],
  ['map', 'A program over the records of a file, the output in their order.'],
  ['inference', 'A loaded model, asked about each record of a file.'],
  ['gang', 'Ranks of one program that talk to each other, on several machines at once.'],
];

function Form({ first }: { readonly first: JobDraft }) {
  const [draft, setDraft] = useState(first);
  const [left, setLeft] = useState<ReadonlySet<string>>(new Set());
  const [wasTried, setTried] = useState(false);
  const checked = useMemo(() => checkDraft(draft), [draft]);
  const submit = useAction('submitJob', { failed: null, changes: ['jobs', 'artifacts'] });
  const isStale = useIsStale();
  const [keyOf] = useState(() => createSubmissionKeys(() => crypto.randomUUID()));
  /** The server's word counts for what was sent, not for what has been changed since. */
  const refusal = submit.variables?.body === checked.spec ? submit.error : null;

  const form: JobForm = {
    draft,
    set: (changes) => setDraft((known) => ({ ...known, ...changes })),
    leave: (field) => setLeft((known) => (known.has(field) ? known : new Set([...known, field]))),
    problem(field) {
      const message = problemOf(checked.problems, field);
      const isSaid = message !== null && (wasTried || (left.has(field) && message !== 'is needed'));
      if (isSaid) return message;
      return refusal?.details.field === field ? refusal.message : null;
    },
  };
  const send = (event: FormEvent): void => {
    event.preventDefault();
    setTried(true);
    if (checked.spec === null) {
      // After what is wrong has been marked.
      setTimeout(() => document.querySelector<HTMLElement>('form [aria-invalid="true"]')?.focus());
      return;
    }
    submit.mutate(
      { body: checked.spec, idempotencyKey: keyOf(checked.spec) },
      { onSuccess: ({ id }) => navigate(hrefTo('jobs', id)) },
    );
  };
  return (
    <JobFormContext value={form}>
      <Anchor href={hrefTo('jobs')} className={classes['back'] ?? ''}>
        <IconArrowLeft size={16} aria-hidden />
        All jobs
      </Anchor>
      <Page title="New job" lead="What is to be done, with what, and where.">
        <form onSubmit={send} noValidate className={classes['form']}>
          <div>
            <Section title="Kind of work">
              <Radio.Group
                label="Kind of work"
                labelProps={{ className: 'visually-hidden' }}
                value={draft.kind}
                onChange={(kind) => form.set({ kind: kind })}
              >
                <div className={classes['rows']}>
                  {kinds.map(([kind, description]) => (
                    <Radio key={kind} value={kind} label={kindWords[kind]} description={description} />
                  ))}
                </div>
              </Radio.Group>
            </Section>
            <ProgramsForbidden kind={draft.kind} />
            <UploadList unfinishedOnly />
            <KindFields />
            <Where />
            <Details />
          </div>
          <div className={classes['preview']}>
            <Preview checked={checked} />
            <Section title="Submit">
              <div className={classes['rows']}>
                <TextField of="name" label="Name of the job" placeholder="chosen by what it does" />
                {wasTried && checked.problems.length > 0 && (
                  <Alert color="red" title="Not complete yet" role="alert">
                    {checked.problems.slice(0, 8).map(({ field, message }) => (
                      <Text key={`${field} ${message}`} size="sm" className={classes['anywhere'] ?? ''}>
                        <code>{plainText(field)}</code> {plainText(message)}
                      </Text>
                    ))}
                  </Alert>
                )}
                {refusal !== null && (
                  <ErrorState
                    title={mayHaveArrived(refusal) ? 'No answer came' : 'It was not submitted'}
                    error={refusal}
                    action={
                      mayHaveArrived(refusal) ? (
                        <Text size="sm">It may have arrived. Submit it again: it will not run twice.</Text>
                      ) : null
                    }
                  />
                )}
                <div>
                  <Button
                    type="submit"
                    disabled={isStale}
                    loading={submit.isPending}
                    leftSection={<IconPlayerPlay size={16} aria-hidden />}
                  >
                    Submit
                  </Button>
                </div>
              </div>
            </Section>
          </div>
        </form>
      </Page>
    </JobFormContext>
  );
}

function mayHaveArrived({ code }: CoveyError): boolean {
  return code === 'timeout' || code === 'controller_unreachable' || code === 'shutting_down';
}

function Where() {
  const { draft, set, problem } = useJobForm();
  const nodes = useNodes().data?.nodes ?? [];
  const machines = nodes
    .map(({ name }) => ({ id: name, name: plainText(name) }))
    .sort((a, b) => a.name.localeCompare(b.name));
  const able = nodes.filter(({ eligible }) => eligible).map(({ name }) => name);
  return (
    <Section title="Where">
      <div className={classes['rows']}>
        {draft.kind !== 'gang' && (
          <DistributionEditor
            machines={machines}
            shares={draft.shares}
            first={() => evenShares((able.length > 0 ? able : machines.map(({ id }) => id)).slice(0, 24))}
            onChange={(shares) => set({ shares })}
          />
        )}
        <MultiSelect
          label="Only on these machines"
          placeholder={draft.nodes.length === 0 ? 'all that may and can' : ''}
          clearable
          clearButtonProps={{ 'aria-label': 'All machines' }}
          searchable={machines.length > 10}
          data={machines.map(({ id, name }) => ({ value: id, label: name }))}
          value={[...draft.nodes]}
          error={problemText(problem('requires.nodes'))}
          onChange={(chosen) => set({ nodes: chosen })}
        />
        <div className={classes['fields']}>
          {draft.kind !== 'kernel' && (
            <NumberField
              of="cpus"
              field="requires.cpus"
              label="Processors for each partition"
              placeholder="1"
              decimals
            />
          )}
          <NumberField
            of="memoryMiB"
            field="requires.memoryBytes"
            label="Memory for each partition"
            placeholder="256 MiB"
            suffix=" MiB"
          />
          <ChoiceField
            of="os"
            field="requires.os"
            label="System"
            placeholder="any"
            clearable
            data={[
              { value: 'linux', label: 'Linux' },
              { value: 'darwin', label: 'macOS' },
              { value: 'win32', label: 'Windows' },
            ]}
          />
          <ChoiceField
            of="arch"
            field="requires.arch"
            label="Processor"
            placeholder="any"
            clearable
            data={[
              { value: 'x64', label: 'x64' },
              { value: 'arm64', label: 'arm64' },
            ]}
          />
        </div>
      </div>
    </Section>
  );
}

/** What most jobs leave as it is. */
function Details() {
  const { draft, problem } = useJobForm();
  const [isOpen, setOpen] = useState(false);
  const fields = ['retry', 'timeoutMs', 'priority', 'speculative', 'exclusive'];
  const isWrong = fields.some((field) => problem(field) !== null);
  const open = isOpen || isWrong;
  return (
    <Section
      title="When something fails"
      lead="Attempts, time, second copies."
      actions={
        <Button
          size="compact-sm"
          variant="default"
          aria-expanded={open}
          leftSection={
            open ? <IconChevronDown size={14} aria-hidden /> : <IconChevronRight size={14} aria-hidden />
          }
          onClick={() => setOpen(!open)}
        >
          {open ? 'Fewer fields' : 'More fields'}
        </Button>
      }
    >
      <Collapse expanded={open}>
        <div className={classes['fields']}>
          <NumberField of="attempts" field="retry.attempts" label="Attempts at a partition" placeholder="3" />
          <NumberField
            of="backoffS"
            field="retry.backoffMs"
            label="Pause before the second"
            placeholder="1 s"
            suffix=" s"
            decimals
          />
          {isProgram(draft.kind) && (
            <TextField
              of="exitCodes"
              field="retry.exitCodes"
              label="Exit codes worth another attempt"
              placeholder="every one but 0"
            />
          )}
          <NumberField
            of="timeoutMin"
            field="timeoutMs"
            label="Time of an attempt at most"
            placeholder="1,440 min"
            suffix=" min"
            decimals
          />
          <NumberField of="priority" label="Priority" placeholder="0" description="Higher goes first." />
          <ChoiceField
            of="speculative"
            label="Second copies near the end"
            data={[
              { value: 'default', label: 'where they do no harm' },
              { value: 'yes', label: 'yes' },
              { value: 'no', label: 'no' },
            ]}
          />
          <SwitchField
            of="exclusive"
            label="Never two at once"
            description="What was lost with its machine waits until that has certainly stopped."
          />
        </div>
      </Collapse>
    </Section>
  );
}

/** The same job for a terminal and for programs. */
function Preview({ checked }: { readonly checked: CheckedDraft }) {
  const [shows, setShows] = useState('command');
  const { line, usesFile } = runCommand(checked.body);
  const json = plainText(JSON.stringify(withoutSecrets(checked.body), null, 2), true);
  return (
    <Section
      title="The same elsewhere"
      actions={
        <SegmentedControl
          size="xs"
          aria-label="Show it as"
          value={shows}
          data={[
            { value: 'command', label: 'Command' },
            { value: 'spec', label: 'Specification' },
          ]}
          onChange={setShows}
        />
      }
    >
      <div className={classes['rows']}>
        {shows === 'command' ? (
          <>
            <CodeBlock value={plainText(line)} what="the command" />
            {usesFile && (
              <Text size="xs" c="dimmed">
                It has more than options can say: save the specification as job.json.
              </Text>
            )}
          </>
        ) : (
          <CodeBlock value={json} what="the specification" />
        )}
      </div>
    </Section>
  );
}

function withoutSecrets(body: CheckedDraft['body']): object {
  const { secrets, ...rest } = body;
  if (secrets === undefined) return rest;
  const hidden = Object.fromEntries(Object.keys(secrets as object).map((name) => [name, '…']));
  return { ...rest, secrets: hidden };
}
