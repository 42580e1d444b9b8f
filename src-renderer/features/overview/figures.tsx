import { Paper } from '@mantine/core';
import type { ReactNode } from 'react';
import type { NodeView } from '#shared/api/schema.ts';
import { Sparkline } from '../../charts/sparkline.tsx';
import { Meter } from '../../components/meter.tsx';
import { formatBytes, formatBytesOf, formatCount, formatTokenRate } from '../../format/format.ts';
import { useLive } from '../../stores/live.ts';
import { coveyMemory, ramOf, vramOf, type MemoryFigure } from './memory.ts';

const sparkSamples = 60;

/** The covey in a few numbers, of now. */
export function Figures({ nodes }: { readonly nodes: readonly NodeView[] }) {
  const live = useLive((state) => state.nodes);
  const samples = useLive((state) => state.samples);
  const now = samples.at(-1);
  const ram = coveyMemory(nodes, live, ramOf);
  const vram = coveyMemory(nodes, live, vramOf);
  const eligible = nodes.filter((node) => node.eligible).length;
  return (
    <div className="figures">
      <Figure label="Generating" value={formatTokenRate(now?.tokensPerS ?? 0)} unit="tokens/s">
        <div className="figure-foot">
          <Sparkline values={samples.slice(-sparkSamples).map((sample) => sample.tokensPerS)} />
        </div>
      </Figure>
      <Figure label="Requests running" value={formatCount(now?.requestsRunning ?? 0)} unit="now">
        <div className="figure-foot">
          <Sparkline values={samples.slice(-sparkSamples).map((sample) => sample.requestsRunning)} />
        </div>
      </Figure>
      <Figure
        label="Machines"
        value={formatCount(eligible)}
        unit={`of ${formatCount(nodes.length)} ${eligible === 1 ? 'takes' : 'take'} work`}
      >
        <div className="figure-foot figure-unit">{statusCounts(nodes)}</div>
      </Figure>
      <MemoryTile label="Memory" figure={ram} none="No machine is connected." />
      {vram === null ? null : <MemoryTile label="GPU memory" figure={vram} none="" />}
    </div>
  );
}

/** `2 busy, 1 lost` */
function statusCounts(nodes: readonly NodeView[]): string {
  const counts = new Map<string, number>();
  for (const { status } of nodes) counts.set(status, (counts.get(status) ?? 0) + 1);
  return [...counts].map(([status, count]) => `${formatCount(count)} ${status}`).join(', ');
}

function Figure(props: {
  readonly label: string;
  readonly value: string;
  readonly unit: string;
  readonly children?: ReactNode;
}) {
  return (
    <Paper withBorder className="figure" role="group" aria-label={props.label}>
      <div className="figure-label">{props.label}</div>
      <div>
        <span className="figure-value">{props.value}</span> <span className="figure-unit">{props.unit}</span>
      </div>
      {props.children}
    </Paper>
  );
}

function MemoryTile(props: {
  readonly label: string;
  readonly figure: MemoryFigure | null;
  readonly none: string;
}) {
  const { figure, label } = props;
  if (figure === null) return <Figure label={label} value="–" unit={props.none} />;
  const { usedBytes, totalBytes, oursBytes } = figure;
  return (
    <Paper withBorder className="figure" role="group" aria-label={label}>
      <div className="figure-label">
        <span>{label}</span>
        {oursBytes === null || oursBytes === 0 ? null : <span>{formatBytes(oursBytes)} by models</span>}
      </div>
      <div>
        <span className="figure-value">{formatBytes(totalBytes - usedBytes)}</span>{' '}
        <span className="figure-unit">free</span>
      </div>
      <div className="figure-foot">
        <Meter
          label={`${label} in use`}
          used={usedBytes}
          total={totalBytes}
          text={`${formatBytesOf(usedBytes, totalBytes)} in use`}
          {...(oursBytes === null ? {} : { ours: oursBytes })}
        />
        <div className="figure-unit">{formatBytesOf(usedBytes, totalBytes)} in use</div>
      </div>
    </Paper>
  );
}
