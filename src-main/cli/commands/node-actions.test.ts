import { describe, expect, it } from 'vitest';
import { CoveyError } from '#shared/errors.ts';
import { at, exampleId, exampleNode, nodeIdOf } from '../../../e2e/support/views.ts';
import { useCovey } from '../../../e2e/support/use-covey.ts';

const { covey } = useCovey();

const paused = exampleNode({
  status: 'paused',
  eligible: false,
  ineligibleReasons: ['it is paused'],
  pausedAt: at,
});
const missing = (): never => {
  throw new CoveyError('node_not_found', 'There is no machine "desc".');
};

describe('pause', () => {
  it('says what goes on and how to undo it', async () => {
    const { code, stdout, api } = await covey('pause desk', { pause: () => paused });
    expect(code).toBe(0);
    expect(api.requests.map(({ route, params }) => [route, params])).toEqual([['pause', { node: 'desk' }]]);
    expect(stdout).toMatchInlineSnapshot(`
      "desk is paused: it gets no new work.
      Undo it with "covey resume desk".
      "
    `);
    const serving = { ...paused, deployments: [exampleId] };
    expect((await covey('pause desk', { pause: () => serving })).stdout).toMatchInlineSnapshot(`
      "desk is paused: it gets no new work; 1 model that it works for stays.
      Undo it with "covey resume desk".
      "
    `);
  });

  it('prints the answer for scripts, and the name that was probably meant for people', async () => {
    const { stdout } = await covey('pause desk --json', { pause: () => paused });
    expect(JSON.parse(stdout)).toEqual(paused);
    const wrong = await covey('pause desc', { pause: missing, nodes: () => ({ nodes: [paused] }) });
    expect([wrong.code, wrong.stdout]).toEqual([1, '']);
    expect(wrong.stderr).toBe('error: There is no machine "desc".\nDid you mean "desk"?\n');
  });
});

describe('rename', () => {
  const renamed = exampleNode({ name: 'küche' });

  it('tells the old name and the new one', async () => {
    const { code, stdout, api } = await covey('rename aaaaaa küche', {
      node: () => exampleNode(),
      renameNode: () => renamed,
    });
    expect([code, stdout]).toEqual([0, 'desk is called küche now.\n']);
    expect(api.requests.at(-1)).toMatchObject({
      route: 'renameNode',
      params: { node: nodeIdOf('a') },
      body: { name: 'küche' },
    });
    const again = await covey('rename küche küche', { node: () => renamed, renameNode: () => renamed });
    expect([again.code, again.stdout]).toEqual([0, 'It is called küche already.\n']);
  });

  it('prints the answer for scripts, after one request', async () => {
    const { stdout, api } = await covey('rename desk küche --json', { renameNode: () => renamed });
    expect(JSON.parse(stdout)).toEqual(renamed);
    expect(api.requests).toHaveLength(1);
  });

  it('asks nothing of anyone for a name that no machine can have', async () => {
    for (const name of ['-rf', 'a/b', 'x'.repeat(65)]) {
      const { code, stderr, api } = await covey(`rename desk -- ${name}`);
      expect([code, api.requests]).toEqual([2, []]);
      expect(stderr).toBe(
        `error: The name must be 1 to 64 letters, digits, dots, dashes or underscores, got "${name}".\n`,
      );
    }
  });

  it('says that another machine has the name', async () => {
    const { code, stderr } = await covey('rename desk attic', {
      node: () => exampleNode(),
      renameNode: () => {
        throw new CoveyError('node_name_taken', 'Another machine is called attic; names are unique.', {
          field: 'name',
        });
      },
    });
    expect([code, stderr]).toEqual([1, 'error: Another machine is called attic; names are unique.\n']);
  });
});
