import type { NodeView, PingView } from '#shared/api/schema.ts';
import { CoveyError } from '#shared/errors.ts';
import type { CommandContext } from '../context.ts';
import { describeError, Exit, exitCodes } from '../failure.ts';
import { renderTable } from '../table.ts';
import { bytes, duration, percent, plural, printable } from '../text.ts';

/** With `--json`: what `covey nodes --json` has. */
export async function showNodeStats({ api, io, json, width }: CommandContext): Promise<void> {
  const answer = await api.call('nodes');
  if (json) return io.out(`${JSON.stringify(answer)}\n`);
  if (answer.nodes.length === 0) {
    return io.out('No machine has joined yet. "covey invite" prints what to run on one.\n');
  }
  const figure = (value: number | null | undefined, show: (known: number) => string): string =>
    value === null || value === undefined ? '' : show(value);
  io.out(
    renderTable<NodeView>(
      [
        { header: 'NAME', value: (node) => node.name, shrinkTo: 10 },
        {
          header: 'CPU',
          value: ({ telemetry }) => figure(telemetry?.cpuLoad, (load) => percent(load * 100)),
          align: 'right',
        },
        { header: 'RAM USED', value: ramUsed, align: 'right' },
        {
          header: 'DISK FREE',
          value: ({ telemetry }) => figure(telemetry?.diskFreeBytes, bytes),
          align: 'right',
        },
        {
          header: 'RECEIVES',
          value: ({ telemetry }) => figure(telemetry?.receiveBytesPerS, (rate) => `${bytes(rate)}/s`),
          align: 'right',
        },
        {
          header: 'SENDS',
          value: ({ telemetry }) => figure(telemetry?.sendBytesPerS, (rate) => `${bytes(rate)}/s`),
          align: 'right',
        },
        {
          header: 'TEMP',
          value: ({ telemetry }) => figure(telemetry?.celsius, (celsius) => `${Math.round(celsius)} °C`),
          align: 'right',
        },
        { header: 'COVEY', value: ({ telemetry }) => figure(telemetry?.ownRssBytes, bytes), align: 'right' },
      ],
      answer.nodes,
      width,
    ),
  );
}

function ramUsed({ telemetry }: NodeView): string {
  if (!telemetry || telemetry.ramTotalBytes === 0) return '';
  const usedBytes = telemetry.ramTotalBytes - telemetry.ramAvailableBytes;
  return `${bytes(usedBytes)} ${percent((usedBytes / telemetry.ramTotalBytes) * 100)}`;
}

const pingEveryMs = 500;

/** Answers as they come, then a summary. Exit code 1 when the last one did not come. */
export async function pingNode(
  { api, io, json }: CommandContext,
  node: string,
  count: number,
): Promise<void> {
  const stop = new AbortController();
  const removeListener = io.onInterrupt(() => stop.abort());
  const answers: PingView[] = [];
  let failed: CoveyError | null = null;
  try {
    for (let sent = 0; sent < count && !stop.signal.aborted; sent += 1) {
      if (sent > 0) await io.sleep(pingEveryMs, stop.signal);
      if (stop.signal.aborted) break;
      try {
        const answer = await api.call('pingNode', { params: { node } });
        failed = null;
        answers.push(answer);
        io.out(
          json
            ? `${JSON.stringify(answer)}\n`
            : `${printable(answer.nodeName)} answers after ${duration(answer.rttMs)}\n`,
        );
      } catch (error) {
        failed = CoveyError.from(error);
        // Whoever is not a machine, or cannot be asked at all, will not be one at the next try.
        if (!failed.retryable || failed.code === 'controller_unreachable') throw error;
        io.err(`no answer: ${describeError(failed.toBody())}`);
      }
    }
  } finally {
    removeListener();
  }
  const times = answers.map(({ rttMs }) => rttMs).sort((a, b) => a - b);
  if (!json && times.length > 1) {
    const middle = times[Math.floor((times.length - 1) / 2)] ?? 0;
    io.out(
      `${plural(times.length, 'answer')}: ${duration(times[0] ?? 0)} to ${duration(times.at(-1) ?? 0)}, ` +
        `half within ${duration(middle)}\n`,
    );
  }
  if (failed !== null) throw new Exit(exitCodes.failed);
}
