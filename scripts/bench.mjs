import { readFileSync, readdirSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { bootstrap } from './lib/bootstrap.mjs';
import { ensureBuild } from './lib/build.mjs';
import { ScriptError, runScript, say } from './lib/console.mjs';
import { ensurePrograms } from './lib/debian.mjs';
import { inRoot } from './lib/paths.mjs';

/**
 * `npm run bench -- NAME [--minutes N] [--json]`: runs e2e/bench/NAME.ts. The last line on stdout is the result as one JSON
 * object (see e2e/bench/result.ts); without --json a table comes before it.
 */
const definesRun = /^export (async )?function run\(/m;
const usage = 'Usage: npm run bench -- NAME [--minutes N] [--json]';

/** @param {string[]} args */
function parse(args) {
  try {
    return parseArgs({
      args,
      allowPositionals: true,
      options: { json: { type: 'boolean', default: false }, minutes: { type: 'string' } },
    });
  } catch (error) {
    throw new ScriptError(error instanceof Error ? error.message : String(error), usage, 2);
  }
}

/** @param {string | undefined} text */
function minutesOf(text) {
  if (text === undefined) return undefined;
  if (/^[1-9]\d{0,3}$/.test(text)) return Number(text);
  throw new ScriptError(`--minutes takes a whole number from 1 to 9999, not "${text}".`, usage, 2);
}

await runScript(async () => {
  const { values, positionals } = parse(process.argv.slice(2));
  const [name, ...rest] = positionals;
  const known = readdirSync(inRoot('e2e', 'bench'))
    .filter(
      (file) => file.endsWith('.ts') && definesRun.test(readFileSync(inRoot('e2e', 'bench', file), 'utf8')),
    )
    .map((file) => file.slice(0, -'.ts'.length))
    .sort();
  if (name === undefined || rest.length > 0 || !known.includes(name)) {
    throw new ScriptError(usage, `Names: ${known.join(', ')}.`, 2);
  }
  const minutes = minutesOf(values.minutes);
  await bootstrap();
  await ensureBuild();
  const { prepareEngine } = await import('./lib/engine.mjs');
  process.env['COVEY_ENGINE_DIR'] = (await prepareEngine()).dir;
  const bench = await import(pathToFileURL(inRoot('e2e', 'bench', `${name}.ts`)).href);
  if (minutes !== undefined && bench.takesMinutes !== true) {
    throw new ScriptError(`${name} runs as long as it takes: leave --minutes out.`, usage, 2);
  }
  if (bench.programs) await ensurePrograms(bench.programs);
  const { formatResult } = await import(pathToFileURL(inRoot('e2e', 'bench', 'result.ts')).href);
  const result = await bench.run({ log: say, ...(minutes === undefined ? {} : { minutes }) });
  if (!values.json) console.log(formatResult(result));
  console.log(JSON.stringify(result));
  if (result.failure !== undefined) throw new ScriptError(result.failure);
});
