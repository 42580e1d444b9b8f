import { Progress, Text } from '@mantine/core';
import type { DeploymentView } from '#shared/domain/deployment.ts';
import { hrefTo } from '../../app/router.ts';
import { Name } from '../../components/text.tsx';
import { DeploymentStatusMark } from '../../components/status.tsx';
import { formatPercent, formatTokensPerS } from '../../format/format.ts';
import { plainText } from '../../format/plain-text.ts';
import { useDeploymentLive } from '../../stores/live.ts';

const shown = 8;

export function RunningModels({ deployments }: { readonly deployments: readonly DeploymentView[] }) {
  return (
    <>
      <ul className="rows">
        {deployments.slice(0, shown).map((deployment) => (
          <ModelRow key={deployment.id} deployment={deployment} />
        ))}
      </ul>
      {deployments.length <= shown ? null : (
        <a className="rows-more" href={hrefTo('models')}>
          All {deployments.length} models
        </a>
      )}
    </>
  );
}

function ModelRow({ deployment }: { readonly deployment: DeploymentView }) {
  const live = useDeploymentLive(deployment.id);
  const { status, progress, stages } = deployment;
  const percent = progress?.percent ?? null;
  const running = live?.requestsRunning ?? deployment.requestsRunning;
  const shares = stages.map((stage) => `${plainText(stage.nodeName)} ${formatPercent(stage.percent)}`);
  return (
    <li>
      <div className="row-main">
        <a href={hrefTo('models')} className="row-title">
          <Name>{deployment.model}</Name>
        </a>
        <Text size="sm" c="dimmed" className="row-detail">
          {shares.length === 0 ? 'On no machine yet' : shares.join(' · ')}
        </Text>
      </div>
      <div className="row-side">
        <DeploymentStatusMark status={status} />
        {status === 'ready' ? (
          <Text size="sm" c="dimmed" className="number">
            {formatTokensPerS(live?.tokensPerS ?? 0)} ·{' '}
            {live?.slotsTotal == null
              ? `${running} running`
              : `${live.slotsBusy ?? running} of ${live.slotsTotal} slots`}
          </Text>
        ) : status === 'loading' && progress !== null ? (
          <div className="row-progress">
            <Text size="xs" c="dimmed">
              {plainText(progress.step)} {percent === null ? '' : formatPercent(percent)}
            </Text>
            <Progress value={percent ?? 0} size="sm" aria-label={`Loading ${plainText(deployment.model)}`} />
          </div>
        ) : null}
      </div>
    </li>
  );
}
