import { copyFile, rename } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { createBackup } from '../../../src-main/nodejs/backup/create-backup.ts';
import { ensureIdentity } from '../../../src-main/nodejs/identity/identity.ts';
import { createLogger } from '../../../src-main/nodejs/logging.ts';
import { nodeIdSchema } from '../../../src-main/shared/lib/ids.ts';
import { at } from '../views.ts';
import type { GoldenCase } from './golden-case.ts';

const passphrase = 'correct horse battery';
const logger = createLogger({ level: 'error', format: 'text' });

async function machine(dataDirectory: string): Promise<void> {
  await ensureIdentity(join(dataDirectory, 'identity'), { logger, now: () => at - 86_400_000 });
}

/** A machine without an identity, and the backup of another. */
async function backedUp(dataDirectory: string, here: string): Promise<void> {
  await machine(dataDirectory);
  await createBackup({
    ...{ dataDirectory, file: join(here, 'desk.covey'), passphrase, force: false, version: '0.1.0' },
    ...{ now: at - 3_600_000, logger, copyDatabase: copyFile },
  });
  await rename(join(dataDirectory, 'identity'), join(here, 'identity'));
}

const contents = z.array(z.string());

/** Commands that ask nobody: about this machine's own directory, and about the program. */
export const ownMachineCases: Readonly<Record<string, GoldenCase>> = {
  version: {
    happy: { words: 'version', scripts: {} },
    wrong: 'version 1',
    json: z.strictObject({ version: z.string() }),
    offline: true,
  },
  completion: {
    happy: { words: 'completion bash', scripts: {}, document: 100 },
    more: [
      { words: 'completion zsh', scripts: {}, document: 100 },
      { words: 'completion fish', scripts: {}, document: 100 },
      { words: 'completion powershell', scripts: {}, document: 100 },
      { words: 'completion --help', scripts: {} },
    ],
    wrong: ['completion', 'completion tcsh'],
    json: null,
    offline: true,
  },
  man: {
    happy: { words: 'man', scripts: {}, document: 40 },
    wrong: 'man covey',
    json: null,
    offline: true,
  },
  backup: {
    happy: { words: 'backup desk.covey', scripts: {}, machine, answers: [passphrase] },
    empty: {
      words: 'backup desk.covey',
      scripts: {},
      machine: () => Promise.resolve(),
      answers: [passphrase],
      code: 1,
    },
    more: [
      { words: 'backup desk.covey', scripts: {}, machine: backedUp, answers: [passphrase], code: 1 },
      { words: 'backup desk.covey', scripts: {}, machine, answers: ['too short'], code: 1 },
      { words: 'backup desk.covey', scripts: {}, machine, code: 2 },
    ],
    wrong: 'backup',
    json: z.strictObject({ file: z.string(), bytes: z.number(), nodeId: nodeIdSchema, contents }),
    offline: true,
  },
  restore: {
    happy: { words: 'restore desk.covey', scripts: {}, machine: backedUp, answers: [passphrase] },
    empty: { words: 'restore desk.covey', scripts: {}, machine, answers: [passphrase], code: 1 },
    more: [
      {
        words: 'restore desk.covey',
        scripts: {},
        machine: backedUp,
        answers: ['not the passphrase'],
        code: 1,
      },
    ],
    wrong: 'restore',
    json: z.strictObject({
      ...{ dataDirectory: z.string(), nodeId: nodeIdSchema, createdAt: z.number(), contents },
      movedTo: z.string().nullable(),
    }),
    offline: true,
  },
  'identity show': {
    happy: { words: 'identity show', scripts: {}, machine },
    empty: { words: 'identity', scripts: {}, machine: () => Promise.resolve(), code: 1 },
    wrong: 'identity shwo',
    json: z.strictObject({
      ...{ nodeId: nodeIdSchema, createdAt: z.number(), dataDirectory: z.string() },
      ...{ isController: z.boolean(), controllerName: z.string().nullable() },
    }),
    offline: true,
  },
  'identity new': {
    happy: { words: 'identity new --yes', scripts: {}, machine },
    empty: { words: 'identity new --yes', scripts: {}, machine: () => Promise.resolve(), code: 1 },
    more: [
      { words: 'identity new', scripts: {}, machine, answers: ['n'], code: 1 },
      { words: 'identity new', scripts: {}, machine, code: 2 },
    ],
    wrong: 'identity new x',
    json: z.strictObject({ before: nodeIdSchema, nodeId: nodeIdSchema, movedTo: z.string() }),
    offline: true,
  },
};
