import type { Command } from 'commander';
import type { Device } from '#shared/domain/node.ts';
import type { CommandContext } from '../context.ts';
import type { AddCommands } from '../registry.ts';
import { renderTable } from '../table.ts';
import { bytes, percent, printable, wrap } from '../text.ts';
import { watching, watchOption, type WatchFlags } from '../watch.ts';

export const addDeviceCommands: AddCommands = ({ add, act }) => {
  watchOption(add('devices', 'what all machines can compute on')).action(
    (flags: WatchFlags, command: Command) => act(command, watching(flags, listDevices)),
  );
};

interface Row {
  readonly machine: string;
  readonly device: Device;
  readonly freeBytes: number;
  readonly load: number | null;
}

/** With `--json`: what `covey nodes --json` has. */
async function listDevices({ api, io, json, width }: CommandContext): Promise<void> {
  const answer = await api.call('nodes');
  if (json) return io.out(`${JSON.stringify(answer)}\n`);
  if (answer.nodes.length === 0) {
    return io.out('No machine has joined yet. "covey invite" prints what to run on one.\n');
  }
  const rows = answer.nodes.flatMap((node): Row[] => {
    const live = new Map(node.telemetry?.deviceFree.map((device) => [device.id, device]));
    return node.hardware?.devices.known
      ? node.hardware.devices.value.map((device) => ({
          machine: node.name,
          device,
          freeBytes: live.get(device.id)?.freeBytes ?? device.freeBytes,
          load: live.get(device.id)?.load ?? null,
        }))
      : [];
  });
  if (rows.length > 0) {
    io.out(
      renderTable<Row>(
        [
          { header: 'MACHINE', value: (row) => row.machine, shrinkTo: 8 },
          { header: 'DEVICE', value: (row) => row.device.id },
          { header: 'KIND', value: (row) => row.device.kind },
          { header: 'BY', value: (row) => row.device.backend, shrinkTo: 6 },
          { header: 'FREE', value: (row) => bytes(row.freeBytes), align: 'right' },
          { header: 'TOTAL', value: (row) => bytes(row.device.totalBytes), align: 'right' },
          {
            header: 'LOAD',
            value: (row) => (row.load === null ? '' : percent(row.load * 100)),
            align: 'right',
          },
          { header: 'NAME', value: (row) => row.device.name, shrinkTo: 10 },
        ],
        rows,
        width,
      ),
    );
  }
  const unknown = answer.nodes.flatMap((node) => {
    if (node.hardware?.devices.known) return [];
    const reason = node.hardware ? node.hardware.devices : null;
    const why = reason && !reason.known ? reason.reason : 'it has not connected yet';
    return wrap(`The devices of ${printable(node.name)} are unknown: ${printable(why)}`, width);
  });
  if (unknown.length > 0) io.out(`${rows.length > 0 ? '\n' : ''}${unknown.join('\n')}\n`);
}
