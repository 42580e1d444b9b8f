import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { NodeId } from '#shared/lib/ids.ts';
import { openMembershipFile, readMembership, type Membership } from './membership.ts';
import { silentLogger } from './transport/fixtures.ts';

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'covey-membership-'));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

const membership: Membership = {
  controllerId: 'c'.repeat(64) as NodeId,
  controllerName: 'hub',
  addresses: [{ host: '192.0.2.1', port: 7879 }],
};

test('what two keep is in the file with what was there, in the order in which they kept it', async () => {
  const file = openMembershipFile(directory, membership, silentLogger);
  file.keep({ name: 'desk' });
  file.keep({ addresses: [{ host: '192.0.2.2', port: 7879 }] });
  file.keep({ name: 'attic' });
  await file.close();
  const kept = { ...membership, addresses: [{ host: '192.0.2.2', port: 7879 }], name: 'attic' };
  expect(await readMembership(directory)).toEqual(kept);
  expect(file.current).toEqual(kept);
  file.keep({ name: 'late' });
  await file.close();
  expect((await readMembership(directory))?.name).toBe('attic');
});

test('a part that could not be written is not taken for kept, and goes with the next', async () => {
  const writes: Membership[] = [];
  const file = openMembershipFile(directory, membership, silentLogger, async (_directory, value) => {
    writes.push(value);
    if (writes.length === 1) throw new Error('ENOSPC');
  });
  file.keep({ name: 'desk' });
  await new Promise((resolve) => setImmediate(resolve));
  expect(file.current).toEqual(membership);
  file.keep({ name: 'desk' });
  await file.close();
  expect(writes.map(({ name }) => name)).toEqual(['desk', 'desk']);
});
