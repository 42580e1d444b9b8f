import { describe, expect, test } from 'vitest';
import { preambleSchema, joinControllerFrame, joinWorkerFrame } from '../../src-main/shared/protocol/join.ts';
import { controllerFrame, workerFrame } from '../../src-main/shared/protocol/session.ts';
import { settingsSchema } from '../../src-main/shared/settings.ts';
import { parseAnnouncement } from '../../src-main/nodejs/discovery/announcement.ts';
import { decodeJoinString } from '../../src-main/nodejs/join-string.ts';
import { readCorpus, readHexCorpus } from './corpus.ts';
import { plans } from './plans.ts';
import { formatReports, fuzz, type FuzzReport } from './runner.ts';

/** Over all targets; the long form sets it (see scripts/soak.mjs). */
const inputs = Number(process.env['COVEY_FUZZ_INPUTS'] ?? 30_000);
/** The short form is the same every time. */
const seed = Number(process.env['COVEY_FUZZ_SEED'] ?? 1);
const shares = plans.reduce((sum, { share }) => sum + share, 0);

describe('the corpus is of inputs that are right, so that what comes of them is nearly right', () => {
  test.each([
    ['worker-frames.jsonl', workerFrame],
    ['controller-frames.jsonl', controllerFrame],
    ['join-worker-frames.jsonl', joinWorkerFrame],
    ['join-controller-frames.jsonl', joinControllerFrame],
    ['preambles.jsonl', preambleSchema],
    ['settings.jsonl', settingsSchema],
  ] as const)('%s', (file, schema) => {
    for (const text of readCorpus(file)) expect(schema.safeParse(JSON.parse(text)).error).toBeUndefined();
  });

  test('join strings and announcements', () => {
    for (const text of readCorpus('join-strings.txt')) expect(decodeJoinString(text).ok).toBe(true);
    expect(readHexCorpus('mdns.hex').flatMap(parseAnnouncement)).toHaveLength(2);
  });
});

describe(`inputs from outside, seed ${seed}`, () => {
  const reports: FuzzReport[] = [];
  test.each(plans.map((plan) => [plan.name, plan] as const))(
    '%s: no crash, no hang, no growth of memory, whatever comes',
    async (_name, plan) => {
      const report = await fuzz(plan, { inputs: Math.ceil((inputs * plan.share) / shares), seed });
      reports.push(report);
      if (reports.length === plans.length) console.log(formatReports(reports));
    },
    30 * 60_000,
  );
});
