import { Fragment, useMemo } from 'react';
import { Anchor, Badge, Group, Stack } from '@mantine/core';
import { IconArrowLeft, IconDeviceDesktopOff } from '@tabler/icons-react';
import type { NodeView } from '#shared/api/schema.ts';
import { hrefTo, navigate } from '../../app/router.ts';
import { TimeChart, type Series } from '../../charts/time-chart.tsx';
import { DataTable, type Column } from '../../components/data-table.tsx';
import { NotThere } from '../../components/not-there.tsx';
import { Page, Section } from '../../components/page.tsx';
import { NodeStatusMark } from '../../components/status.tsx';
import { Ago, Name } from '../../components/text.tsx';
import { formatBytes, formatBytesOf, formatRate, formatShare, plural } from '../../format/format.ts';
import { plainText } from '../../format/plain-text.ts';
import { useDeployments, useRead } from '../../queries/queries.ts';
import { useLive, useNodeLive } from '../../stores/live.ts';
import { nodeFigures, systemText } from './figures.ts';
import { chartRows, mergeSamples, toSample, type ChartRow, type NodeSample } from './history-rows.ts';
import { MachineActions } from './machine-actions.tsx';
import { WhyNot } from './machine-card.tsx';
import { MachineTasks } from './machine-tasks.tsx';
import classes from './nodes.module.css';

const none: readonly never[] = [];

/** Everything that is known of one machine. */
export function MachineDetail({
  node,
  isController,
}: {
  readonly node: NodeView;
  readonly isController: boolean;
}) {
  const live = useNodeLive(node.id);
  return (
    <>
      <Anchor href={hrefTo('machines')} className={classes['back'] ?? ''}>
        <IconArrowLeft size={16} aria-hidden />
        All machines
      </Anchor>
      <Page
        title={plainText(node.name)}
        lead={
          <Group gap="sm">
            <NodeStatusMark status={live?.status ?? node.status} drain={node.drain} />
            {isController && (
              <Badge variant="light" color="gray" size="sm" tt="none">
                controller
              </Badge>
            )}
            {!node.connected && node.lastSeenAt !== null && (
              <span>
                last heard of <Ago at={node.lastSeenAt} />
              </span>
            )}
          </Group>
        }
        actions={<MachineActions node={node} onRemoved={() => navigate(hrefTo('machines'))} />}
      >
        <Stack gap="md">
          <WhyNot node={node} />
          <Charts node={node} />
          <Work node={node} />
          <MachineTasks node={node} />
          <Hardware node={node} />
        </Stack>
      </Page>
    </>
  );
}

export function NoSuchMachine() {
  return (
    <NotThere
      page="machines"
      of="Machines"
      icon={IconDeviceDesktopOff}
      title="This machine is not in the covey"
      all="All machines"
    />
  );
}

/** The ten minutes before this page was opened, and what has come since. */
function useSamples(node: NodeView): readonly NodeSample[] {
  const history = useRead('nodeHistory', { params: { node: node.id } }).data?.samples ?? none;
  const live = useLive((state) => state.nodeSamples.get(node.id)) ?? none;
  return useMemo(() => {
    const recent = live.map((sample) => toSample(sample.at, sample));
    const now = Math.max(recent.at(-1)?.at ?? 0, history.at(-1)?.at ?? 0);
    return mergeSamples(history, recent, now);
  }, [history, live]);
}

function Charts({ node }: { readonly node: NodeView }) {
  const samples = useSamples(node);
  const { ramTotalBytes, devices } = nodeFigures(node, null);
  const memory = chartRows(samples, (sample) => ({
    ram:
      ramTotalBytes === null || sample.ramAvailableBytes === null
        ? null
        : ramTotalBytes - sample.ramAvailableBytes,
  }));
  const cpu = chartRows(samples, ({ cpuLoad }) => ({ cpu: cpuLoad }));
  const network = chartRows(samples, ({ receiveBytesPerS, sendBytesPerS }) => ({
    in: receiveBytesPerS,
    out: sendBytesPerS,
  }));
  const vram = chartRows(samples, (sample) =>
    Object.fromEntries(
      devices.map(({ id, totalBytes }) => {
        const free = sample.devices.find((device) => device.id === id)?.freeBytes ?? null;
        return [id, free === null ? null : totalBytes - free];
      }),
    ),
  );
  const load = chartRows(samples, (sample) =>
    Object.fromEntries(
      devices.map(({ id }) => [id, sample.devices.find((device) => device.id === id)?.load ?? null]),
    ),
  );
  const heat = chartRows(samples, ({ celsius }) => ({ celsius }));
  const name = plainText(node.name);
  const largest = Math.max(...devices.map(({ totalBytes }) => totalBytes), 0);
  return (
    <div className={classes['charts']}>
      <Chart title="CPU" of={name} rows={cpu} series={[line('cpu', 'CPU')]} format={formatShare} max={1} />
      <Chart
        title="Memory"
        of={name}
        rows={memory}
        series={[line('ram', 'used')]}
        format={formatBytes}
        {...(ramTotalBytes === null ? {} : { max: ramTotalBytes })}
      />
      <Chart
        title="Network"
        of={name}
        rows={network}
        series={[line('in', 'received'), line('out', 'sent')]}
        format={formatRate}
      />
      {devices.length > 0 && (
        <Chart
          title="Graphics memory"
          of={name}
          rows={vram}
          series={devices.map(({ id }) => line(id, id))}
          format={formatBytes}
          max={largest}
        />
      )}
      {load.some((row) => devices.some(({ id }) => row[id] != null)) && (
        <Chart
          title="Graphics load"
          of={name}
          rows={load}
          series={devices.map(({ id }) => line(id, id))}
          format={formatShare}
          max={1}
        />
      )}
      {heat.some((row) => row['celsius'] != null) && (
        <Chart
          title="Temperature"
          of={name}
          rows={heat}
          series={[line('celsius', 'hottest sensor')]}
          format={(value) => `${Math.round(value)} °C`}
        />
      )}
    </div>
  );
}

function line(id: string, label: string): Series<ChartRow> {
  return { id, label, value: (row) => row[id] ?? null };
}

function Chart(props: {
  readonly title: string;
  readonly of: string;
  readonly rows: readonly ChartRow[];
  readonly series: readonly Series<ChartRow>[];
  readonly format: (value: number) => string;
  readonly max?: number;
}) {
  const { title, of, rows, series, format, max } = props;
  const last = rows.at(-1);
  const now = series.flatMap(({ label, value }) => {
    const figure = last === undefined ? null : value(last);
    if (figure === null) return [];
    const text = max === undefined || format !== formatBytes ? format(figure) : formatBytesOf(figure, max);
    return series.length === 1 ? [text] : [`${plainText(label)} ${text}`];
  });
  return (
    <Section title={title} lead={now.length === 0 ? 'Not known yet' : now.join(', ')}>
      <TimeChart
        label={`${title} of ${of}`}
        samples={rows}
        series={series}
        format={format}
        {...(max === undefined ? {} : { max })}
      />
    </Section>
  );
}

function Work({ node }: { readonly node: NodeView }) {
  const deployments = useDeployments().data?.deployments ?? none;
  const rows = node.engines.map((engine) => ({
    engine,
    model: deployments.find(({ id }) => id === engine.deploymentId)?.model ?? engine.deploymentId,
    stage: deployments.flatMap(({ stages }) => stages).find(({ engineId }) => engineId === engine.engineId),
  }));
  type Row = (typeof rows)[number];
  const columns: readonly Column<Row>[] = [
    {
      id: 'model',
      title: 'Model',
      width: 'minmax(110px, 2fr)',
      sortBy: ({ model }) => model,
      cell: ({ model }) => <Name>{model}</Name>,
    },
    { id: 'phase', title: 'State', width: '86px', cell: ({ engine }) => engine.phase },
    {
      id: 'role',
      title: 'Role',
      cell: ({ engine }) => (engine.kind === 'llama' ? 'leads' : 'computes layers'),
    },
    {
      id: 'layers',
      title: 'Layers',
      width: '80px',
      align: 'right',
      sortBy: ({ stage }) => stage?.layers ?? null,
      cell: ({ stage }) => (stage === undefined ? '' : String(stage.layers)),
    },
    {
      id: 'memory',
      title: 'Memory',
      width: '100px',
      align: 'right',
      sortBy: ({ engine }) => engine.rssBytes,
      cell: ({ engine }) => (engine.rssBytes === null ? '' : formatBytes(engine.rssBytes)),
    },
    {
      id: 'slots',
      title: 'Busy',
      width: '90px',
      align: 'right',
      cell: ({ engine }) => (engine.busySlots === null ? '' : plural(engine.busySlots, 'slot')),
    },
  ];
  return (
    <Section title="Models there" flush>
      <DataTable
        label={`Engines on ${plainText(node.name)}`}
        rows={rows}
        columns={columns}
        rowKey={({ engine }) => engine.engineId}
        empty={<p className={`state ${classes['nothing'] ?? ''}`}>No model runs on this machine.</p>}
      />
    </Section>
  );
}

function Hardware({ node }: { readonly node: NodeView }) {
  const { hardware } = node;
  const figures = nodeFigures(node, useNodeLive(node.id));
  const facts: [string, string | null][] = [
    ['System', systemText(node)],
    ['Release', hardware?.os.release ?? null],
    [
      'Processor',
      hardware?.cpu.known === true
        ? `${hardware.cpu.value.model}, ${plural(hardware.cpu.value.physicalCores, 'core')}, ${plural(hardware.cpu.value.logicalCores, 'thread')}`
        : (hardware?.cpu.reason ?? null),
    ],
    ['Memory', figures.ramTotalBytes === null ? null : formatBytes(figures.ramTotalBytes)],
    [
      'Graphics cards',
      figures.devices.length === 0
        ? 'none that the engine can use'
        : figures.devices
            .map(({ id, name, totalBytes }) => `${name} (${id}, ${formatBytes(totalBytes)})`)
            .join('; '),
    ],
    ['Disk for models', figures.diskFreeBytes === null ? null : `${formatBytes(figures.diskFreeBytes)} free`],
    ['Address', node.address],
    ['Covey', node.version],
    ['Engine', node.engineBuildId],
    ['Key', node.id],
  ];
  return (
    <Section title="About it">
      <dl className="facts">
        {facts.map(([title, value]) => (
          <Fragment key={title}>
            <dt>{title}</dt>
            <dd>{value === null ? 'not known' : plainText(value)}</dd>
          </Fragment>
        ))}
        <dt>Joined</dt>
        <dd>
          <Ago at={node.joinedAt} />
        </dd>
      </dl>
    </Section>
  );
}
