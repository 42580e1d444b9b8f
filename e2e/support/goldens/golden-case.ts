import type { JoinView } from '../../../src-main/shared/api/joining.ts';
import type { ApiRoute } from '../../../src-main/shared/api/schema.ts';
import type { SelfView } from '../../../src-main/shared/api/self.ts';
import type { LendState } from '../../../src-main/shared/domain/lend.ts';
import { CoveyError, type ErrorCode } from '../../../src-main/shared/errors.ts';
import type { RouteScript, Scripts } from '../scripted-api.ts';
import { at, exampleNode, nodeIdOf } from '../views.ts';

export type { Scripts };

export interface GoldenScene {
  /** After `covey`. */
  readonly words: string;
  readonly scripts: Scripts;
  /** What is in the directory where it is typed. */
  readonly files?: Readonly<Record<string, string>>;
  /** Typed by the person. */
  readonly answers?: readonly string[];
  /** Default: 0. */
  readonly code?: number;
}

/** What one command shows: with something there, with nothing there, and when it is used wrongly. */
export interface GoldenCase {
  readonly happy: GoldenScene;
  /** An empty covey, or the thing that was named is not there. Absent: nothing can be missing. */
  readonly empty?: GoldenScene;
  /** Exit code 2, nothing asked. */
  readonly wrong: string;
  /** The route whose answer `--json` prints as it is; null: it has JSON of its own or none. */
  readonly json: ApiRoute | null;
  /** It asks nobody, so that nobody can be away. */
  readonly offline?: boolean;
}

export const missing =
  (code: ErrorCode, message: string): RouteScript =>
  () => {
    throw new CoveyError(code, message);
  };

export const noNode = missing('node_not_found', 'There is no machine "desk": none has joined yet.');

export const attic = exampleNode({
  id: nodeIdOf('b'),
  name: 'attic',
  status: 'draining',
  eligible: false,
  ineligibleReasons: ['is draining'],
  drain: { startedAt: at - 1, deadlineAt: at + 90_000, completedAt: null },
  telemetry: null,
});

export const lent: LendState = { lending: true, since: at - 60_000, heldBackBy: [], unavailable: [] };

export const joined: JoinView = {
  phase: 'joined',
  by: 'join-string',
  controller: { nodeId: nodeIdOf('c'), name: 'home', address: { host: '192.0.2.1', port: 7879 } },
  code: null,
  confirmed: true,
  expiresAt: null,
  error: null,
};

export const self: SelfView = {
  role: 'worker',
  nodeId: nodeIdOf('a'),
  name: 'desk',
  version: '0.1.0',
  apiAddress: 'http://127.0.0.1:7878',
  clusterAddress: null,
  dataDirectory: '/somewhere',
  membership: {
    controllerId: nodeIdOf('c'),
    controllerName: 'home',
    connected: true,
    addresses: [{ host: '192.0.2.1', port: 7879 }],
    trouble: null,
  },
  join: joined,
  lend: lent,
  notices: [],
};
