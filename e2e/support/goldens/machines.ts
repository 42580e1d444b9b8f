import { joinViewSchema, type PendingView } from '../../../src-main/shared/api/joining.ts';
import type { Discovered, PairCheck } from '../../../src-main/shared/api/self.ts';
import { at, exampleNode, exampleStatus, nodeIdOf } from '../views.ts';
import { type GoldenCase, missing, noNode, attic, joined, self } from './golden-case.ts';

const waiting: PendingView = {
  id: 'bbbbbbbbbbbb',
  nodeId: nodeIdOf('b'),
  name: 'attic',
  remoteAddress: '192.0.2.11',
  askedAt: at - 20_000,
  expiresAt: at + 280_000,
  approved: false,
  confirmed: false,
};

const found: Discovered = {
  nodeId: nodeIdOf('b'),
  name: 'attic',
  role: 'worker',
  version: '0.1.0',
  relation: 'member',
  verified: true,
  attempts: [
    { address: { host: '192.0.2.11', port: 7879 }, nodeId: nodeIdOf('b'), connectMs: 4.2, problem: null },
  ],
  interfaces: ['eth0'],
  lastSeenAt: at - 400,
};

const link: PairCheck = {
  from: nodeIdOf('a'),
  fromName: 'desk',
  to: nodeIdOf('b'),
  toName: 'attic',
  path: 'direct',
  rttMs: 0.42,
  bytesPerS: 117e6,
  measuredAt: at - 1_000,
  attempts: [],
  error: null,
};

const secret = `covey-secret.${'a1'.repeat(16)}`;

/** Commands of machines, and of how they come together. */
export const machineCases: Readonly<Record<string, GoldenCase>> = {
  status: {
    happy: { words: 'status', scripts: { status: () => exampleStatus } },
    empty: {
      words: 'status',
      scripts: {
        status: () => ({
          ...exampleStatus,
          nodes: { total: 0, ready: 0 },
          deployments: { total: 0, ready: 0 },
          requestsRunning: 0,
        }),
      },
    },
    wrong: 'status now',
    json: 'status',
  },
  'nodes list': {
    happy: { words: 'nodes list', scripts: { nodes: () => ({ nodes: [exampleNode(), attic] }) } },
    empty: { words: 'nodes list', scripts: { nodes: () => ({ nodes: [] }) } },
    wrong: 'nodes lits',
    json: 'nodes',
  },
  'nodes stats': {
    happy: {
      words: 'workers stats',
      scripts: { nodes: () => ({ nodes: [exampleNode(), attic] }) },
    },
    empty: { words: 'nodes stats', scripts: { nodes: () => ({ nodes: [] }) } },
    wrong: 'nodes stats --wacth',
    json: 'nodes',
  },
  'nodes info': {
    happy: { words: 'nodes info desk', scripts: { node: () => exampleNode() } },
    empty: { words: 'nodes info desk', scripts: { node: noNode, nodes: () => ({ nodes: [] }) }, code: 1 },
    wrong: 'nodes info',
    json: 'node',
  },
  'nodes ping': {
    happy: {
      words: 'nodes ping desk --count 2',
      scripts: { pingNode: () => ({ nodeId: nodeIdOf('a'), nodeName: 'desk', rttMs: 0.82 }) },
    },
    empty: { words: 'nodes ping desk', scripts: { pingNode: noNode, nodes: () => ({ nodes: [] }) }, code: 1 },
    wrong: 'nodes ping desk --count 0',
    json: 'pingNode',
    jsonLines: true,
  },
  devices: {
    happy: {
      words: 'devices',
      scripts: { nodes: () => ({ nodes: [exampleNode(), { ...attic, hardware: null }] }) },
    },
    empty: { words: 'devices', scripts: { nodes: () => ({ nodes: [] }) } },
    wrong: 'devices CPU',
    json: 'nodes',
  },
  discover: {
    happy: {
      words: 'discover',
      scripts: {
        discovery: () => ({ enabled: true, interfaces: [], machines: [found], problem: null }),
      },
    },
    empty: {
      words: 'discover',
      scripts: {
        discovery: () => ({
          enabled: true,
          interfaces: [],
          machines: [],
          problem: 'No network interface takes multicast.',
        }),
      },
    },
    wrong: 'discover attic',
    json: 'discovery',
  },
  invite: {
    happy: {
      words: 'invite',
      scripts: { invite: () => ({ joinString: 'covey1.abc', expiresAt: at + 3_600_000 }) },
    },
    wrong: 'invite attic',
    json: 'invite',
  },
  pending: {
    happy: { words: 'pending', scripts: { pending: () => ({ pending: [waiting], blocked: [] }) } },
    empty: { words: 'pending', scripts: { pending: () => ({ pending: [], blocked: [] }) } },
    wrong: 'pending all',
    json: 'pending',
  },
  approve: {
    happy: { words: 'approve 123456', scripts: { approve: () => ({ ...waiting, approved: true }) } },
    empty: {
      words: 'approve 123456',
      scripts: { approve: missing('join_code_wrong', 'No machine that asks to join shows this number.') },
      code: 1,
    },
    wrong: 'approve 12',
    json: 'approve',
  },
  deny: {
    happy: { words: 'deny bbbbbbbbbbbb', scripts: { deny: () => waiting } },
    empty: {
      words: 'deny bbbbbbbbbbbb',
      scripts: { deny: missing('join_request_not_found', 'No machine "bbbbbbbbbbbb" asks to join.') },
      code: 1,
    },
    wrong: 'deny',
    json: 'deny',
  },
  unblock: {
    happy: { words: 'unblock bbbbbbbbbbbb', scripts: { unblock: () => ({}) } },
    empty: {
      words: 'unblock bbbbbbbbbbbb',
      scripts: { unblock: missing('join_request_not_found', 'No machine "bbbbbbbbbbbb" is blocked.') },
      code: 1,
    },
    wrong: 'unblock',
    json: 'unblock',
  },
  join: {
    happy: { words: 'join home', scripts: { join: () => joined, self: () => self } },
    empty: {
      words: 'join',
      scripts: { join: missing('controller_not_found', 'No controller announces itself on this network.') },
      code: 1,
    },
    wrong: 'join home attic',
    json: joinViewSchema,
  },
  leave: {
    happy: {
      words: 'leave --yes',
      scripts: { self: () => self, leave: () => ({ ...self, membership: null }) },
    },
    empty: { words: 'leave', scripts: { self: () => ({ ...self, membership: null }) }, code: 1 },
    wrong: 'leave home',
    json: 'leave',
  },
  'secret show': {
    happy: { words: 'secret show', scripts: { clusterSecret: () => ({ secret }) } },
    empty: { words: 'secret', scripts: { clusterSecret: () => ({ secret: null }) }, code: 1 },
    wrong: 'secret shwo',
    json: 'clusterSecret',
  },
  'secret new': {
    happy: { words: 'secret new', scripts: { newClusterSecret: () => ({ secret }) } },
    wrong: 'secret new words',
    json: 'newClusterSecret',
  },
  'secret drop': {
    happy: { words: 'secret drop', scripts: { dropClusterSecret: () => ({}) } },
    wrong: 'secret drop all',
    json: 'dropClusterSecret',
  },
  'secret set': {
    happy: { words: 'secret set', scripts: { join: () => joined, self: () => self }, answers: [secret] },
    wrong: 'secret set words',
    json: joinViewSchema,
  },
  drain: {
    happy: { words: 'drain attic --deadline 90', scripts: { drain: () => attic } },
    empty: { words: 'drain desk', scripts: { drain: noNode, nodes: () => ({ nodes: [] }) }, code: 1 },
    wrong: 'drain attic --deadline soon',
    json: 'drain',
  },
  resume: {
    happy: { words: 'resume desk', scripts: { resume: () => exampleNode() } },
    empty: { words: 'resume desk', scripts: { resume: noNode, nodes: () => ({ nodes: [] }) }, code: 1 },
    wrong: 'resume',
    json: 'resume',
  },
  pause: {
    happy: { words: 'pause attic', scripts: { pause: () => ({ ...attic, status: 'paused', drain: null }) } },
    empty: { words: 'pause desk', scripts: { pause: noNode, nodes: () => ({ nodes: [] }) }, code: 1 },
    wrong: 'pause',
    json: 'pause',
  },
  rename: {
    happy: {
      words: 'rename desk study',
      scripts: { renameNode: () => exampleNode({ name: 'study' }), node: () => exampleNode() },
    },
    empty: {
      words: 'rename desk study',
      scripts: { renameNode: noNode, node: noNode, nodes: () => ({ nodes: [] }) },
      code: 1,
    },
    wrong: 'rename desk',
    json: 'renameNode',
  },
  remove: {
    happy: { words: 'remove desk --yes', scripts: { node: () => exampleNode(), removeNode: () => ({}) } },
    empty: { words: 'remove desk --yes', scripts: { node: noNode, nodes: () => ({ nodes: [] }) }, code: 1 },
    wrong: 'remove',
    json: 'removeNode',
  },
  links: {
    happy: { words: 'links', scripts: { links: () => ({ links: [link] }) } },
    empty: { words: 'links', scripts: { links: () => ({ links: [] }) } },
    wrong: 'links desk',
    json: 'links',
  },
  doctor: {
    happy: {
      words: 'doctor',
      scripts: {
        doctor: () => ({
          nodes: [
            {
              nodeId: nodeIdOf('c'),
              name: 'hall',
              error: null,
              checks: [
                {
                  id: 'program',
                  title: 'Program',
                  status: 'ok',
                  summary: 'Covey 0.1.0 on Node.js 24.21.0',
                  action: null,
                },
              ],
            },
          ],
          pairs: [link],
        }),
      },
    },
    wrong: 'doctor desk',
    json: 'doctor',
    offline: true,
  },
};
