import type { Command } from 'commander';
import type { NodeView } from '#shared/api/schema.ts';
import type { Unknownable } from '#shared/domain/node.ts';
import { shortNodeId } from '#shared/lib/ids.ts';
import type { CommandContext, Style } from '../context.ts';
import { parseWhole } from '../arguments.ts';
import type { AddCommands } from '../registry.ts';
import { renderFields, renderTable } from '../table.ts';
import { bytes, duration, percent, plural, printable, wrap } from '../text.ts';
import { watching, watchOption, type WatchFlags } from '../watch.ts';
import { pingNode, showNodeStats } from './node-figures.ts';

export const addNodeCommands: AddCommands = ({ add, act, group }) => {
  const nodes = group('nodes', 'the machines', listNodes, 'watchable').alias('workers');
  watchOption(add('list', 'list the machines', nodes)).action((flags: WatchFlags, command: Command) =>
    act(command, watching(flags, listNodes)),
  );
  watchOption(add('stats', 'load, memory, disk, network and temperature of the machines', nodes)).action(
    (flags: WatchFlags, command: Command) => act(command, watching(flags, showNodeStats)),
  );
  watchOption(add('info <node>', 'all about one machine', nodes)).action(
    (node: string, flags: WatchFlags, command: Command) =>
      act(
        command,
        watching(flags, (context) => showNode(context, node)),
      ),
  );
  add('ping <node>', 'ask a machine for an answer', nodes)
    .option('--count <n>', 'how often', parseWhole(1, 1_000), 4)
    .action((node: string, flags: { count: number }, command: Command) =>
      act(command, (context) => pingNode(context, node, flags.count)),
    );
};

export async function listNodes(context: CommandContext): Promise<void> {
  const answer = await context.api.call('nodes');
  if (context.json) return context.io.out(`${JSON.stringify(answer)}\n`);
  if (answer.nodes.length === 0) {
    return context.io.out('No machine has joined yet. "covey invite" prints what to run on one.\n');
  }
  context.io.out(nodesTable(context, answer.nodes));
}

export function nodesTable({ style, width, io }: CommandContext, nodes: readonly NodeView[]): string {
  const table = renderTable<NodeView>(
    [
      { header: 'NAME', value: (node) => node.name, shrinkTo: 10 },
      {
        header: 'STATUS',
        value: statusText,
        paint: (text, node) => statusStyle(style, node)(text),
      },
      { header: 'CORES', value: (node) => cores(node), align: 'right' },
      { header: 'LOAD', value: (node) => load(node), align: 'right' },
      { header: 'RAM FREE', value: (node) => ram(node), align: 'right' },
      { header: 'DEVICES', value: (node) => devices(node), shrinkTo: 7 },
      { header: 'LOADED', value: (node) => String(node.deployments.length), align: 'right' },
      { header: 'ID', value: (node) => shortNodeId(node.id) },
    ],
    nodes,
    width,
  );
  const notes = nodes
    .filter((node) => !node.eligible)
    .map((node) => `${printable(node.name)} gets no work: ${whyNot(node, io.now())}`);
  return notes.length === 0 ? table : `${table}\n${notes.flatMap((note) => wrap(note, width)).join('\n')}\n`;
}

export async function showNode(context: CommandContext, ref: string): Promise<void> {
  const node = await context.api.call('node', { params: { node: ref } });
  if (context.json) return context.io.out(`${JSON.stringify(node)}\n`);
  const { io, width } = context;
  const now = io.now();
  const hardware = node.hardware;
  io.out(
    renderFields([
      ['Name', node.name],
      ['Id', node.id],
      ['Status', `${statusText(node)}, ${node.eligible ? 'may get work' : whyNot(node, now)}`],
      ['Address', node.address],
      [
        'Last heard of',
        node.lastSeenAt === null ? 'never' : `${duration(Math.max(0, now - node.lastSeenAt))} ago`,
      ],
      ['Joined', new Date(node.joinedAt).toISOString()],
      ['Covey', node.version],
      ['Engine', node.engineBuildId ?? 'none'],
      ['System', hardware && `${hardware.os.platform} ${hardware.os.arch}, ${hardware.os.release}`],
      [
        'CPU',
        hardware &&
          orReason(
            hardware.cpu,
            (cpu) =>
              `${cpu.model}, ${plural(cpu.physicalCores, 'core')}, ${plural(cpu.logicalCores, 'thread')}`,
          ),
      ],
      ['CPU load', node.telemetry?.cpuLoad == null ? null : percent(node.telemetry.cpuLoad * 100)],
      ['RAM', ramLine(node)],
      [
        'Disk',
        hardware &&
          orReason(
            hardware.disk,
            (disk) =>
              `${bytes(node.telemetry?.diskFreeBytes ?? disk.freeBytes)} free of ${bytes(disk.totalBytes)} at ${disk.path}`,
          ),
      ],
      [
        'GPUs',
        hardware && orReason(hardware.gpus, (gpus) => gpus.map((gpu) => gpu.model).join(', ') || 'none'),
      ],
      ['Draining', drainLine(node, now)],
      ['Deployments', node.deployments.join(', ') || 'none'],
    ]),
  );
  if (hardware?.devices.known) {
    io.out('\n');
    const free = new Map(node.telemetry?.deviceFree.map((device) => [device.id, device.freeBytes]));
    io.out(
      renderTable(
        [
          { header: 'DEVICE', value: (device) => device.id },
          { header: 'KIND', value: (device) => device.kind },
          {
            header: 'FREE',
            value: (device) => bytes(free.get(device.id) ?? device.freeBytes),
            align: 'right',
          },
          { header: 'TOTAL', value: (device) => bytes(device.totalBytes), align: 'right' },
          { header: 'NAME', value: (device) => device.name, shrinkTo: 12 },
        ],
        hardware.devices.value,
        width,
      ),
    );
  } else if (hardware) {
    io.out(`\nDevices are unknown: ${printable(hardware.devices.known ? '' : hardware.devices.reason)}\n`);
  }
  if (node.engines.length > 0) {
    io.out('\n');
    io.out(
      renderTable(
        [
          { header: 'ENGINE', value: (engine) => engine.engineId },
          { header: 'KIND', value: (engine) => (engine.kind === 'rpc' ? 'stage' : 'leader') },
          { header: 'PHASE', value: (engine) => engine.phase },
          {
            header: 'MEMORY',
            value: (engine) => (engine.rssBytes === null ? '' : bytes(engine.rssBytes)),
            align: 'right',
          },
          { header: 'PROBLEM', value: (engine) => engine.error?.message ?? '', shrinkTo: 12 },
        ],
        node.engines,
        width,
      ),
    );
  }
}

/** What is drained gives nothing back any more. */
function statusText({ status, drain }: NodeView): string {
  return status === 'draining' && drain?.completedAt != null ? 'drained' : status;
}

function statusStyle(style: Style, node: NodeView): (text: string) => string {
  switch (node.status) {
    case 'ready':
    case 'busy':
      return style.good;
    case 'lost':
    case 'unhealthy':
      return style.bad;
    case 'pending':
    case 'draining':
    case 'paused':
      return style.warn;
    case 'offline':
      return style.dim;
  }
}

function whyNot(node: NodeView, now: number): string {
  const others = node.ineligibleReasons.filter(
    (reason) => node.drain === null || !/drain(ing|ed)/.test(reason),
  );
  return [drainLine(node, now), ...others].filter((reason) => reason !== null).join('; ') || node.status;
}

function drainLine(node: NodeView, now: number): string | null {
  if (!node.drain) return null;
  if (node.drain.completedAt !== null) return 'nothing runs there, until it is resumed';
  const leftMs = node.drain.deadlineAt - now;
  return leftMs > 0
    ? `it is draining, requests may run for ${duration(leftMs)} more`
    : 'it is draining, its deadline has passed';
}

function orReason<T>(value: Unknownable<T>, show: (known: T) => string): string {
  return value.known ? show(value.value) : `unknown: ${value.reason}`;
}

function cores(node: NodeView): string {
  return node.hardware?.cpu.known ? String(node.hardware.cpu.value.logicalCores) : '?';
}

function load(node: NodeView): string {
  return node.telemetry?.cpuLoad == null ? '' : percent(node.telemetry.cpuLoad * 100);
}

function ram(node: NodeView): string {
  return node.telemetry ? bytes(node.telemetry.ramAvailableBytes) : '';
}

function ramLine(node: NodeView): string | null {
  if (node.telemetry) {
    return `${bytes(node.telemetry.ramAvailableBytes)} free of ${bytes(node.telemetry.ramTotalBytes)}`;
  }
  return node.hardware && orReason(node.hardware.ram, (value) => bytes(value.totalBytes));
}

function devices(node: NodeView): string {
  if (!node.hardware) return '';
  return node.hardware.devices.known ? node.hardware.devices.value.map((device) => device.id).join(' ') : '?';
}
