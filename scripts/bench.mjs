import { readFileSync, readdirSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { bootstrap } from './lib/bootstrap.mjs';
import { ensureBuild } from './lib/build.mjs';
import { ScriptError, runScript, say } from './lib/console.mjs';
import { inRoot } from './lib/paths.mjs';

/**
 * `npm run bench -- NAME [--json]`: runs e2e/bench/NAME.ts. The last line on stdout is the result as one JSON
 * object (see e2e/bench/result.ts); without --json a table comes before it.
 */
const definesRun = /^export (async )?function run\(/m;

await runScript(async () => {
  const args = process.argv.slice(2);
  const json = args.includes('--json');
  const [name, ...rest] = args.filter((argument) => argument !== '--json');
  const known = readdirSync(inRoot('e2e', 'bench'))
    .filter(
      (file) => file.endsWith('.ts') && definesRun.test(readFileSync(inRoot('e2e', 'bench', file), 'utf8')),
    )
    .map((file) => file.slice(0, -'.ts'.length))
    .sort();
  if (name === undefined || rest.length > 0 || !known.includes(name)) {
    throw new ScriptError(`Usage: npm run bench -- NAME [--json]`, `Names: ${known.join(', ')}.`, 2);
  }
  await bootstrap();
  await ensureBuild();
  const { prepareEngine } = await import('./lib/engine.mjs');
  process.env['COVEY_ENGINE_DIR'] = (await prepareEngine()).dir;
  const { run } = await import(pathToFileURL(inRoot('e2e', 'bench', `${name}.ts`)).href);
  const { formatResult } = await import(pathToFileURL(inRoot('e2e', 'bench', 'result.ts')).href);
  const result = await run({ log: say });
  if (!json) console.log(formatResult(result));
  console.log(JSON.stringify(result));
  if (result.failure !== undefined) throw new ScriptError(result.failure);
});
