import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { DeploymentId } from '#shared/lib/ids.ts';
import { nodeId } from '../fixtures.ts';
import { emptyState } from '../state.ts';
import { openDatabase, type Connection } from './database.ts';
import type { EventFilter } from './event-pages.ts';
import { createStore, type ControllerStore, type NewEvent } from './store.ts';

const total = 100_000;
const deployment = (index: number): DeploymentId => `d-0000000${index}` as DeploymentId;
let directory: string;
let connection: Connection;
let store: ControllerStore;

/** As busy a list as is kept: machines a to e in turn, a hundredth warnings, a thousandth errors. */
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'covey-events-'));
  connection = openDatabase(join(directory, 'covey.db'));
  store = createStore(connection);
  const state = emptyState(0);
  const events = Array.from({ length: total }, (_, index): NewEvent => ({
    at: index,
    kind: index % 3 === 0 ? 'session-opened' : index % 3 === 1 ? 'session-closed' : 'audit-login',
    level: index % 1_000 === 999 ? 'error' : index % 100 === 99 ? 'warn' : 'info',
    message:
      index === 4_321 ? 'one Needle 100%_sure in it' : `something happened on the machine number ${index}`,
    ...(index % 2 === 0 ? { nodeId: nodeId('abcde'[index % 5] as string) } : {}),
    ...(index % 7 === 0 ? { deploymentId: deployment(index % 3) } : {}),
  }));
  store.save(state, state, events);
}, 60_000);
afterAll(() => {
  store.close();
  rmSync(directory, { recursive: true, force: true });
});

function page(filter: Partial<EventFilter>) {
  return store.eventPage({ limit: 200, ...filter });
}

/** Every event that the filter lets through, by pages. */
function allIds(filter: Partial<EventFilter>): number[] {
  const ids: number[] = [];
  for (let before: number | undefined; ;) {
    const { events, more } = page({ ...filter, limit: 1_000, ...(before === undefined ? {} : { before }) });
    ids.push(...events.map((event) => event.id as number));
    before = ids.at(-1);
    if (!more) return ids;
  }
}

describe('pages of events', () => {
  test('newest first, each event once, over all that is kept', () => {
    const { events, more } = page({ limit: 3 });
    expect([events.map((event) => event.id), more]).toEqual([[100_000, 99_999, 99_998], true]);
    expect(events[0]).toEqual({
      id: 100_000,
      at: 99_999,
      kind: 'session-opened',
      level: 'error',
      message: 'something happened on the machine number 99999',
    });
    const ids = allIds({});
    expect(ids).toHaveLength(total);
    expect(new Set(ids).size).toBe(total);
    expect(page({ before: 1 })).toEqual({ events: [], more: false });
    expect(page({ before: 3 })).toMatchObject({ events: [{ id: 2 }, { id: 1 }], more: false });
  });

  test('narrowed by each filter and by several', () => {
    expect(allIds({ level: ['error'] })).toHaveLength(100);
    expect(allIds({ level: ['error', 'warn'] })).toHaveLength(1_000);
    expect(allIds({ node: nodeId('c') })).toHaveLength(10_000);
    expect(
      allIds({ deployment: deployment(1) }).every((id) => (id - 1) % 7 === 0 && (id - 1) % 3 === 1),
    ).toBe(true);
    expect(allIds({ kind: ['audit-login'] })).toHaveLength(33_333);
    expect(allIds({ kind: ['audit-login', 'session-closed'], level: ['error'] })).toHaveLength(66);
    expect(page({ node: nodeId('e'), level: ['error'] }).events).toEqual([]);
    expect(page({ node: nodeId('f') })).toEqual({ events: [], more: false });
  });

  test('by text without regard to case, where % and _ mean themselves', () => {
    expect(page({ text: 'nEEDLE' }).events.map((event) => event.id)).toEqual([4_322]);
    expect(page({ text: '100%_s' }).events.map((event) => event.id)).toEqual([4_322]);
    expect(page({ text: '100_' }).events).toEqual([]);
    expect(page({ text: "';--" }).events).toEqual([]);
  });

  test('one value of a filter is found by its index, in order, without sorting', () => {
    const steps = (where: string): string =>
      connection
        .prepare(`EXPLAIN QUERY PLAN SELECT * FROM events WHERE ${where} AND id < 5 ORDER BY id DESC LIMIT 9`)
        .all()
        .map((row) => (row as { detail: string }).detail)
        .join('; ');
    expect(steps("node_id = 'x'")).toMatch(/^SEARCH events USING INDEX events_by_node [^;]*$/);
    expect(steps("deployment_id = 'x'")).toMatch(/^SEARCH events USING INDEX events_by_deployment [^;]*$/);
    expect(steps("level = 'x'")).toMatch(/^SEARCH events USING INDEX events_by_level [^;]*$/);
    expect(steps("kind = 'x'")).toMatch(/^SEARCH events USING INDEX events_by_kind [^;]*$/);
    expect(steps("+level IN ('x', 'y')")).toMatch(/^SEARCH events USING INTEGER PRIMARY KEY [^;]*$/);
  });

  test('the last 100,000 are kept', () => {
    const state = emptyState(0);
    const event: NewEvent = { at: 0, kind: 'x', level: 'info', message: 'more' };
    store.save(
      state,
      state,
      Array.from({ length: 2_000 }, () => event),
    );
    const ids = allIds({});
    expect([ids.length, ids[0], ids.at(-1)]).toEqual([total, 102_000, 2_001]);
  });
});
