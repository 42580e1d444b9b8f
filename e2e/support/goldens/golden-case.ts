import type { z } from 'zod';
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
  /**
   * Makes the data directory of a machine on which no node runs, and what else is needed in the directory where it
   * is typed; nothing answers then. Ids and sizes, which are others each time, are shown as ones that are not.
   */
  readonly machine?: (dataDirectory: string, workingDirectory: string) => Promise<void>;
  /** It prints a document, not lines for a terminal: so many of its lines are kept. */
  readonly document?: number;
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
  /** Further ones. */
  readonly more?: readonly GoldenScene[];
  /** Exit code 2, nothing asked. Several: each of them. */
  readonly wrong: string | readonly string[];
  /**
   * What `--json` prints: the answer of this route as it is, or something of this form; null: what the command prints
   * is no data (a script, a page).
   */
  readonly json: ApiRoute | z.ZodType | null;
  /** One such object a line. */
  readonly jsonLines?: boolean;
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
