import { Button, Group, Progress, Text } from '@mantine/core';
import { IconPlayerEject, IconRefresh } from '@tabler/icons-react';
import type { DeploymentView, StageView } from '#shared/domain/deployment.ts';
import { Sparkline } from '../../charts/sparkline.tsx';
import { confirm } from '../../components/confirm.tsx';
import { DeploymentStatusMark } from '../../components/status.tsx';
import { Ago, Name } from '../../components/text.tsx';
import {
  formatBytes,
  formatBytesOf,
  formatCount,
  formatDuration,
  formatMs,
  formatPercent,
  formatTokensPerS,
  plural,
} from '../../format/format.ts';
import { plainText } from '../../format/plain-text.ts';
import { useAction } from '../../queries/queries.ts';
import { useNow } from '../../stores/clock.ts';
import { useIsStale } from '../../stores/connection.ts';
import { useDeploymentLive, useLive } from '../../stores/live.ts';
import { machineColour } from './layer-strip.tsx';
import classes from './deployment-card.module.css';

const none: readonly never[] = [];

/** A model that is served or on its way there: how it is, what it does, where its layers are. */
export function DeploymentCard({ deployment }: { readonly deployment: DeploymentView }) {
  const { id, model, status, reason, progress } = deployment;
  const isLoading = status === 'loading' && progress !== null;
  return (
    <article className={classes['card']} aria-label={plainText(model)}>
      <div className={classes['head']}>
        <div className={classes['title']}>
          <h3>
            <Name>{model}</Name>
          </h3>
          <DeploymentStatusMark status={status} />
        </div>
        <Actions deployment={deployment} />
      </div>

      {reason !== null && status !== 'ready' && (
        <Text size="sm" className={classes['reason'] ?? ''} data-bad={status === 'failed' || undefined}>
          {plainText(reason.message)}
          <NextAttempt at={deployment.nextAttemptAt} />
        </Text>
      )}
      {isLoading && (
        <div>
          <Progress
            value={progress.percent ?? 100}
            animated={progress.percent === null}
            aria-label={`Loading ${plainText(model)}`}
          />
          <Text size="xs" mt={4}>
            {progressText(progress)}
          </Text>
        </div>
      )}
      {(status === 'ready' || status === 'draining') && <Speed id={id} deployment={deployment} />}

      {deployment.stages.length > 0 && (
        <>
          <div className={classes['strip']} aria-hidden>
            {deployment.stages.map((stage, index) => (
              <div
                key={stage.engineId}
                style={{ flexGrow: stage.layers, background: machineColour(index) }}
              />
            ))}
          </div>
          <ul className={classes['stages']}>
            {deployment.stages.map((stage, index) => (
              <Stage
                key={stage.engineId}
                stage={stage}
                colour={machineColour(index)}
                total={deployment.layersTotal}
                isServing={status === 'ready'}
              />
            ))}
          </ul>
        </>
      )}
      <Text size="xs" c="dimmed">
        {deployment.info.architecture} · {deployment.info.fileType} · {formatBytes(deployment.info.fileBytes)}
        {deployment.contextPerRequest > 0 &&
          ` · ${formatCount(deployment.contextPerRequest)} tokens of context for each of ${plural(deployment.parallel, 'request')}`}
        {deployment.readyAt !== null && (
          <>
            {' · ready '}
            <Ago at={deployment.readyAt} />
          </>
        )}
        {deployment.failures.length > 0 && ` · failed ${plural(deployment.failures.length, 'time')}`}
      </Text>
    </article>
  );
}

function Actions({ deployment }: { readonly deployment: DeploymentView }) {
  const { id, model, status, requestsRunning } = deployment;
  const name = plainText(model);
  const isStale = useIsStale();
  const changes = ['deployments', 'nodes', 'status'] as const;
  const unload = useAction('unload', { failed: `Could not unload ${name}`, changes });
  const retry = useAction('retry', { failed: `Could not try ${name} again`, changes });
  const askAndUnload = async (): Promise<void> => {
    const running =
      requestsRunning > 0 ? ` ${plural(requestsRunning, 'request')} that run now will be cut off.` : '';
    const yes = await confirm({
      title: `Unload ${name}?`,
      body: `Its memory is given back and apps cannot use it until it is loaded again.${running} The file stays.`,
      action: 'Unload',
      danger: requestsRunning > 0,
    });
    if (yes) unload.mutate({ params: { id } });
  };
  return (
    <Group gap="xs">
      {(status === 'failed' || status === 'waiting') && (
        <Button
          size="compact-sm"
          variant="default"
          leftSection={<IconRefresh size={16} aria-hidden />}
          loading={retry.isPending}
          disabled={isStale}
          aria-label={`Try again: ${name}`}
          onClick={() => retry.mutate({ params: { id } })}
        >
          Try again
        </Button>
      )}
      <Button
        size="compact-sm"
        variant="default"
        leftSection={<IconPlayerEject size={16} aria-hidden />}
        loading={unload.isPending}
        disabled={isStale || status === 'unloading'}
        aria-label={`Unload ${name}`}
        onClick={() => void askAndUnload()}
      >
        Unload
      </Button>
    </Group>
  );
}

function NextAttempt({ at }: { readonly at: number | null }) {
  const now = useNow();
  if (at === null || at <= now) return null;
  return <> Next try in {formatDuration(at - now)}.</>;
}

function Speed({ id, deployment }: { readonly id: string; readonly deployment: DeploymentView }) {
  const live = useDeploymentLive(id);
  const samples = useLive((state) => state.deploymentSamples.get(id)) ?? none;
  const busy = live?.slotsBusy ?? null;
  const total = live?.slotsTotal ?? deployment.parallel;
  return (
    <div className={classes['speed']}>
      <span className={classes['figure']}>{formatTokensPerS(live?.tokensPerS ?? 0)}</span>
      {samples.length > 1 && <Sparkline values={samples.slice(-60).map((sample) => sample.tokensPerS)} />}
      <span>
        {busy === null ? plural(total, 'slot') : `${busy} of ${plural(total, 'slot')} busy`}
        {(live?.requestsRunning ?? 0) > total && `, ${(live?.requestsRunning ?? 0) - total} waiting`}
      </span>
    </div>
  );
}

function Stage(props: {
  readonly stage: StageView;
  readonly colour: string;
  readonly total: number;
  readonly isServing: boolean;
}) {
  const { stage, colour, total, isServing } = props;
  const memory =
    stage.rssBytes === null
      ? `about ${formatBytes(stage.estimatedBytes)}`
      : `${formatBytes(stage.rssBytes)} in memory`;
  const facts = [
    stage.device,
    memory,
    ...(stage.role === 'leader' || stage.path === null ? [] : [pathText(stage)]),
  ];
  return (
    <li className={classes['stage']}>
      <span className={classes['dot']} style={{ background: colour }} aria-hidden />
      <span className={classes['where']}>
        <Name>{stage.nodeName}</Name>
        {stage.role === 'leader' && <span className={classes['soft']}> leads</span>}
      </span>
      <span className={classes['share']}>
        {stage.layers} of {total} layers · {formatPercent(stage.percent)}
      </span>
      <span className={classes['soft']}>{facts.join(' · ')}</span>
      {!isServing && <span className={classes['phase']}>{phaseText(stage)}</span>}
      {stage.error !== null && (
        <Text size="xs" className={classes['error'] ?? ''}>
          {plainText(stage.error.message)}
        </Text>
      )}
    </li>
  );
}

function pathText(stage: StageView): string {
  const rtt = stage.rttMs === null ? '' : `, ${formatMs(stage.rttMs)}`;
  return stage.path === 'relay' ? `through the controller${rtt}` : `${stage.path}${rtt}`;
}

const phaseWords = {
  starting: 'starts',
  connecting: 'connects',
  loading: 'loads',
  canary: 'is being tried',
  ready: 'is ready',
  stopping: 'stops',
  stopped: 'has stopped',
  failed: 'failed',
} as const;

function phaseText({ phase, progress }: StageView): string {
  if (phase === null) return 'not started';
  const percent = progress?.percent ?? null;
  return phase === 'loading' && percent !== null ? `loads, ${formatPercent(percent)}` : phaseWords[phase];
}

function progressText(progress: NonNullable<DeploymentView['progress']>): string {
  const { step, doneBytes, totalBytes, percent } = progress;
  const bytes = doneBytes !== null && totalBytes !== null ? formatBytesOf(doneBytes, totalBytes) : null;
  return [
    plainText(step),
    ...(percent === null ? [] : [formatPercent(percent)]),
    ...(bytes ? [bytes] : []),
  ].join(' · ');
}
