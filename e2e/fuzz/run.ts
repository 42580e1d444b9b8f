import { parseArgs } from 'node:util';
import { plans } from './plans.ts';
import { FuzzFailure, formatReports, fuzz, type FuzzReport } from './runner.ts';

/**
 * `node e2e/fuzz/run.ts [--inputs N] [--seed S] [--target NAME] [--from INDEX]`: fuzzes everything that needs no
 * running controller, N inputs in all (default 1,000,000), or one target alone. Prints a table; exit code 1 at the
 * first input that something is wrong with, after how to run that one again.
 */
const { values } = parseArgs({
  options: {
    inputs: { type: 'string', default: '1000000' },
    seed: { type: 'string', default: String(Math.floor(Math.random() * 2 ** 31)) },
    target: { type: 'string' },
    from: { type: 'string', default: '0' },
  },
});
const [inputs, seed, from] = [Number(values.inputs), Number(values.seed), Number(values.from)];
const chosen = plans.filter(({ name }) => values.target === undefined || values.target === name);
if (chosen.length === 0 || ![inputs, seed, from].every(Number.isInteger)) {
  process.stderr.write(
    `Usage: --inputs N --seed S --from INDEX --target ${plans.map((p) => p.name).join('|')}\n`,
  );
  process.exit(2);
}

const shares = chosen.reduce((sum, { share }) => sum + share, 0);
const reports: FuzzReport[] = [];
process.stderr.write(`seed ${seed}\n`);
try {
  for (const plan of chosen) {
    const count = Math.max(1, Math.round((inputs * plan.share) / shares));
    process.stderr.write(`${plan.name}: ${count} inputs ...\n`);
    reports.push(await fuzz(plan, { inputs: count, seed, from }));
  }
  const total = reports.reduce((sum, report) => sum + report.inputs, 0);
  process.stdout.write(`${formatReports(reports)}\n${total} inputs, 0 crashes, 0 hangs\n`);
} catch (error) {
  process.stdout.write(`${error instanceof FuzzFailure ? error.message : String(error)}\n`);
  process.exitCode = 1;
}
