import type { NodeHistory } from '#shared/api/dashboard.ts';
import type { Telemetry } from '#shared/domain/node.ts';
import type { NodeId } from '#shared/lib/ids.ts';

export const historyMs = 10 * 60_000;
/** Heartbeats come every 2 s, some a little early. */
const gapMs = 1_500;
const capacity = 300;
const fixedColumns = 6;
const columnsPerDevice = 3;

/** The last ten minutes of every node's figures, in memory only. */
export interface NodeHistories {
  record(nodeId: NodeId, at: number, telemetry: Telemetry): void;
  read(nodeId: NodeId, now: number): NodeHistory;
  forget(nodeId: NodeId): void;
}

/** A ring of rows of numbers, `NaN` for what is not known: a fifth of what the objects would take. */
interface Ring {
  readonly devices: readonly string[];
  readonly rows: Float64Array;
  /** Rows written so far; the newest is at `(count - 1) % capacity`. */
  count: number;
}

export function createNodeHistories(): NodeHistories {
  const rings = new Map<NodeId, Ring>();
  const ringFor = (nodeId: NodeId, devices: readonly string[]): Ring => {
    const known = rings.get(nodeId);
    if (known && sameIds(known.devices, devices)) return known;
    const width = fixedColumns + columnsPerDevice * devices.length;
    const ring: Ring = { devices, rows: new Float64Array(capacity * width), count: 0 };
    rings.set(nodeId, ring);
    return ring;
  };

  return {
    record(nodeId, at, telemetry) {
      const ring = ringFor(
        nodeId,
        telemetry.deviceFree.map((device) => device.id),
      );
      const width = ring.rows.length / capacity;
      const last = ring.rows[((ring.count - 1) % capacity) * width];
      // A clock that was set back ends the wait too.
      if (ring.count > 0 && last !== undefined && at - last < gapMs && at >= last) return;
      const values = [
        at,
        telemetry.cpuLoad,
        telemetry.ramAvailableBytes,
        telemetry.receiveBytesPerS,
        telemetry.sendBytesPerS,
        telemetry.celsius,
        ...telemetry.deviceFree.flatMap((device) => [device.freeBytes, device.load, device.celsius]),
      ];
      ring.rows.set(
        values.map((value) => value ?? Number.NaN),
        (ring.count % capacity) * width,
      );
      ring.count += 1;
    },
    read(nodeId, now) {
      const ring = rings.get(nodeId);
      if (!ring) return { samples: [] };
      const width = ring.rows.length / capacity;
      const samples: NodeHistory['samples'] = [];
      for (let index = Math.max(0, ring.count - capacity); index < ring.count; index += 1) {
        const start = (index % capacity) * width;
        const sample = sampleOf(ring.rows.subarray(start, start + width), ring.devices);
        if (now - sample.at <= historyMs && sample.at <= now) samples.push(sample);
      }
      return { samples };
    },
    forget: (nodeId) => void rings.delete(nodeId),
  };
}

function sampleOf(row: Float64Array, devices: readonly string[]): NodeHistory['samples'][number] {
  const value = (column: number): number | null => {
    const number = row[column] ?? Number.NaN;
    return Number.isNaN(number) ? null : number;
  };
  return {
    at: value(0) ?? 0,
    cpuLoad: value(1),
    ramAvailableBytes: value(2),
    receiveBytesPerS: value(3),
    sendBytesPerS: value(4),
    celsius: value(5),
    devices: devices.map((id, index) => {
      const column = fixedColumns + columnsPerDevice * index;
      return { id, freeBytes: value(column) ?? 0, load: value(column + 1), celsius: value(column + 2) };
    }),
  };
}

function sameIds(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((id, index) => id === b[index]);
}
