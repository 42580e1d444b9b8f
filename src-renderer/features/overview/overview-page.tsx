import { Button } from '@mantine/core';
import { IconBox, IconDeviceDesktopPlus } from '@tabler/icons-react';
import { useMemo } from 'react';
import type { NodeView } from '#shared/api/schema.ts';
import type { DeploymentView } from '#shared/domain/deployment.ts';
import { hrefTo } from '../../app/router.ts';
import { EmptyState, ErrorState, LoadingRows } from '../../components/states.tsx';
import { Page, Section } from '../../components/page.tsx';
import { StatusMark } from '../../components/status.tsx';
import { plural } from '../../format/format.ts';
import {
  useDeployments,
  useNodes,
  usePending,
  useRead,
  useSettings,
  useStatus,
} from '../../queries/queries.ts';
import { AttentionList } from './attention-list.tsx';
import { attentionOf, type Attention } from './attention.ts';
import { Figures } from './figures.tsx';
import { MachineList } from './machine-list.tsx';
import './overview.css';
import { RecentEvents } from './recent-events.tsx';
import { RunningJobs, useJobsUnderWay } from './running-jobs.tsx';
import { RunningModels } from './running-models.tsx';
import { SpeedChart } from './speed-chart.tsx';

/** Is it healthy, what runs, how fast, what is free, and what should somebody do. */
export function OverviewPage() {
  const nodes = useNodes();
  const deployments = useDeployments();
  const status = useStatus();
  const failed = [nodes, deployments, status].find((query) => query.isError);
  if (failed?.error && nodes.data === undefined) {
    return (
      <Page title="Overview">
        <ErrorState
          title="The covey cannot be shown"
          error={failed.error}
          onRetry={() => void Promise.all([nodes.refetch(), deployments.refetch(), status.refetch()])}
        />
      </Page>
    );
  }
  if (nodes.data === undefined || deployments.data === undefined || status.data === undefined) {
    return (
      <Page title="Overview">
        <LoadingRows rows={8} />
      </Page>
    );
  }
  return (
    <Loaded
      nodes={nodes.data.nodes}
      deployments={deployments.data.deployments}
      version={status.data.version}
    />
  );
}

function Loaded(props: {
  readonly nodes: readonly NodeView[];
  readonly deployments: readonly DeploymentView[];
  readonly version: string;
}) {
  const { nodes, deployments, version } = props;
  const pending = usePending().data?.pending;
  const settings = useSettings().data ?? null;
  const notices = useRead('self').data?.notices;
  const attention = useMemo(
    () =>
      attentionOf({
        nodes,
        deployments,
        pending: pending ?? [],
        settings,
        notices: notices ?? [],
        version,
      }),
    [nodes, deployments, pending, settings, notices, version],
  );
  return (
    <Page title="Overview" lead={<Health nodes={nodes} deployments={deployments} attention={attention} />}>
      <div className="grid">
        {attention.length === 0 ? null : <AttentionList items={attention} />}
        <Figures nodes={nodes} />
        <div className="columns">
          <div>
            <Section title="Models that run" flush>
              {deployments.length === 0 ? (
                <NoModels hasMachines={nodes.length > 0} />
              ) : (
                <RunningModels deployments={deployments} />
              )}
            </Section>
            <RunningJobs hasMachines={nodes.length > 0} />
            <RecentEvents />
          </div>
          <div>
            <SpeedChart hasModels={deployments.length > 0} />
            <Section title="Machines" flush>
              {nodes.length === 0 ? <NoMachines /> : <MachineList nodes={nodes} />}
            </Section>
          </div>
        </div>
      </div>
    </Page>
  );
}

function Health(props: {
  readonly nodes: readonly NodeView[];
  readonly deployments: readonly DeploymentView[];
  readonly attention: readonly Attention[];
}) {
  const { nodes, deployments, attention } = props;
  const jobs = useJobsUnderWay();
  const ready = nodes.filter((node) => node.eligible).length;
  const serving = deployments.filter(({ status }) => status === 'ready').length;
  const troubles = attention.filter(({ tone }) => tone === 'bad').length;
  const waiting = attention.filter(({ tone }) => tone === 'warn').length;
  const tone = troubles > 0 ? 'bad' : waiting > 0 ? 'warn' : nodes.length === 0 ? 'quiet' : 'good';
  const word =
    troubles > 0
      ? `${plural(troubles, 'problem')}`
      : waiting > 0
        ? `${plural(waiting, 'thing')} to look at`
        : nodes.length === 0
          ? 'Nothing to do yet'
          : 'All is well';
  return (
    <span className="health">
      <StatusMark tone={tone}>{word}</StatusMark>
      <span>
        {ready} of {plural(nodes.length, 'machine')} {ready === 1 ? 'takes' : 'take'} work,{' '}
        {serving === 0
          ? 'no model serves'
          : `${plural(serving, 'model')} ${serving === 1 ? 'serves' : 'serve'}`}
        {jobs === null || jobs === 0 ? '' : `, ${plural(jobs, 'job')} ${jobs === 1 ? 'runs' : 'run'}`}
      </span>
    </span>
  );
}

function NoMachines() {
  return (
    <EmptyState
      icon={IconDeviceDesktopPlus}
      title="No machine has joined yet"
      action={
        <Button component="a" href={hrefTo('machines')}>
          Add a machine
        </Button>
      }
    >
      Install Covey on another computer and let it join, or lend this one. Together they can hold models that
      are too big for either.
    </EmptyState>
  );
}

function NoModels({ hasMachines }: { readonly hasMachines: boolean }) {
  return (
    <EmptyState
      icon={IconBox}
      title="Nothing is loaded"
      action={
        hasMachines ? (
          <Button component="a" href={hrefTo('models')}>
            Load a model
          </Button>
        ) : null
      }
    >
      {hasMachines
        ? 'Choose a model and the machines that hold it; after that every app can use it.'
        : 'As soon as a machine has joined, a model can be loaded on it.'}
    </EmptyState>
  );
}
