import { Anchor, Badge, Text } from '@mantine/core';
import type { NodeView } from '#shared/api/schema.ts';
import { hrefTo } from '../../app/router.ts';
import { Sparkline } from '../../charts/sparkline.tsx';
import { Meter } from '../../components/meter.tsx';
import { NodeStatusMark } from '../../components/status.tsx';
import { Ago, Name } from '../../components/text.tsx';
import { formatBytesOf, formatRate, formatShare, plural } from '../../format/format.ts';
import { plainText } from '../../format/plain-text.ts';
import { useLive, useNodeLive } from '../../stores/live.ts';
import { nodeFigures, systemText, type DeviceFigures, type NodeFigures } from './figures.ts';
import { MachineActions } from './machine-actions.tsx';
import classes from './nodes.module.css';

const none: readonly never[] = [];
const sparkSamples = 60;

/** A machine at a glance. Its name leads to everything that is known of it. */
export function MachineCard({
  node,
  isController,
}: {
  readonly node: NodeView;
  readonly isController: boolean;
}) {
  const live = useNodeLive(node.id);
  const samples = useLive((state) => state.nodeSamples.get(node.id)) ?? none;
  const figures = nodeFigures(node, live);
  const name = plainText(node.name);
  const system = systemText(node);
  return (
    <article className={classes['card']} aria-label={name}>
      <div className={classes['cardHead']}>
        <div className={classes['cardName']}>
          <Anchor href={hrefTo('machines', node.id)} fw={600}>
            <Name>{node.name}</Name>
          </Anchor>
          {isController && (
            <Badge variant="light" color="gray" size="sm" tt="none">
              controller
            </Badge>
          )}
        </div>
        <MachineActions node={node} />
      </div>
      <div className={classes['cardState']}>
        <NodeStatusMark status={live?.status ?? node.status} drain={node.drain} />
        <Text size="xs" c="dimmed" span>
          {system ?? 'system unknown'}
          {node.deployments.length > 0 && ` · runs ${plural(node.deployments.length, 'model')}`}
        </Text>
      </div>
      <WhyNot node={node} />
      {node.connected ? (
        <div className={classes['gauges']}>
          <Gauge label="CPU" value={figures.cpuLoad === null ? 'unknown' : formatShare(figures.cpuLoad)}>
            <Sparkline values={samples.slice(-sparkSamples).map(({ cpuLoad }) => cpuLoad)} max={1} />
          </Gauge>
          {figures.ramTotalBytes !== null && figures.ramUsedBytes !== null && (
            <MemoryGauge
              label="Memory"
              machine={name}
              used={figures.ramUsedBytes}
              total={figures.ramTotalBytes}
            />
          )}
          {figures.devices.map((device) => (
            <DeviceGauge key={device.id} device={device} machine={name} />
          ))}
          <Gauge label="Network" value={networkText(figures)} />
        </div>
      ) : (
        node.lastSeenAt !== null && (
          <Text size="sm" c="dimmed">
            Last heard of <Ago at={node.lastSeenAt} />
          </Text>
        )
      )}
    </article>
  );
}

/** A rate takes two measurements: a machine that has just come has none yet. */
function networkText({ receiveBytesPerS, sendBytesPerS }: NodeFigures): string {
  if (receiveBytesPerS === null && sendBytesPerS === null) return 'not known yet';
  return `${formatRate(receiveBytesPerS ?? 0)} in, ${formatRate(sendBytesPerS ?? 0)} out`;
}

/** Why a machine gets no work, in its own words. */
export function WhyNot({ node }: { readonly node: NodeView }) {
  const held = node.lend?.lending === false ? node.lend.heldBackBy.map(({ message }) => message) : [];
  const sentences =
    held.length > 0 ? held : node.eligible ? [] : [`It ${node.ineligibleReasons.join(', and it ')}.`];
  if (sentences.length === 0) return null;
  return (
    <Text size="sm" className={classes['whyNot'] ?? ''}>
      {sentences.map((sentence) => plainText(sentence)).join(' ')}
    </Text>
  );
}

function Gauge(props: {
  readonly label: string;
  readonly value: string;
  readonly children?: React.ReactNode;
}) {
  return (
    <div className={classes['gauge']}>
      <span className={classes['gaugeLabel']}>{props.label}</span>
      <span className={classes['gaugeBar']}>{props.children}</span>
      <span className={classes['gaugeValue']}>{props.value}</span>
    </div>
  );
}

export function MemoryGauge(props: {
  readonly label: string;
  readonly machine: string;
  readonly used: number;
  readonly total: number;
}) {
  const { label, machine, used, total } = props;
  const text = formatBytesOf(used, total);
  return (
    <Gauge label={label} value={text}>
      <Meter
        label={`${label} of ${machine}`}
        used={used}
        total={total}
        text={`${text} used`}
        tone={used > total * 0.95 ? 'bad' : used > total * 0.85 ? 'warn' : 'normal'}
      />
    </Gauge>
  );
}

function DeviceGauge({ device, machine }: { readonly device: DeviceFigures; readonly machine: string }) {
  return (
    <MemoryGauge
      label={plainText(device.id)}
      machine={machine}
      used={device.usedBytes}
      total={device.totalBytes}
    />
  );
}
