import { createHash } from 'node:crypto';
import { createReadStream, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { pipeline } from 'node:stream/promises';
import { parseArgs } from 'node:util';
import { bootstrap } from './lib/bootstrap.mjs';
import { ensureBuild } from './lib/build.mjs';
import { ScriptError, runScript, say } from './lib/console.mjs';
import { prepareEngine } from './lib/engine.mjs';
import { pinnedNode } from './lib/packages.mjs';
import { inRoot } from './lib/paths.mjs';
import { run } from './lib/run.mjs';
import { checkPackage } from './release/check-package.mjs';
import { stageApp, stageEngine, stageHeadless, staging } from './release/stage.mjs';

/**
 * `npm run release`: packages of this platform below build/release/out, checked, with SHA256SUMS.
 *   --targets a,b           of electron-builder; default: those of electron-builder.yml
 *   --electron-dist DIR     a directory with Electron instead of a download
 *   --skip-headless         no archive of the program without a window
 */
const out = path.join(staging, 'out');
const platforms = { linux: 'linux', darwin: 'mac', win32: 'win' };
const minutes = 60_000;
const { version, devDependencies } = JSON.parse(readFileSync(inRoot('package.json'), 'utf8'));

await runScript(async () => {
  const { values } = parseArgs({
    options: {
      targets: { type: 'string' },
      'electron-dist': { type: 'string' },
      'skip-headless': { type: 'boolean', default: false },
    },
  });
  await bootstrap();
  await ensureBuild();
  const engine = await prepareEngine();
  rmSync(out, { recursive: true, force: true });
  stageApp();
  stageEngine(engine.dir);
  await buildApp(values.targets?.split(','), values['electron-dist']);
  checkApp();
  // electron-builder's own tar.gz needs a download of 7-Zip; tar is everywhere.
  if (process.platform === 'linux') {
    await archive(out, 'linux-unpacked', `covey-${version}-linux-${process.arch}.tar.gz`);
  }
  if (!values['skip-headless']) {
    const directory = path.basename(stageHeadless(pinnedNode()));
    await archive(staging, directory, `${directory}-headless-${process.platform}-${process.arch}.tar.gz`);
  }
  await writeSums();
});

async function buildApp(targets, electronDist) {
  const repository = process.env['GITHUB_REPOSITORY']?.split('/');
  const result = await run(
    pinnedNode(),
    [
      inRoot('node_modules', 'electron-builder', 'cli.js'),
      `--${platforms[process.platform]}`,
      ...(targets ?? []),
      `--${process.arch}`,
      ...['--publish', 'never'],
      `-c.electronVersion=${devDependencies.electron}`,
      ...(electronDist === undefined ? [] : [`-c.electronDist=${path.resolve(electronDist)}`]),
      // Where installed apps look for updates.
      ...(repository === undefined
        ? []
        : [
            '-c.publish.provider=github',
            `-c.publish.owner=${repository[0]}`,
            `-c.publish.repo=${repository[1]}`,
          ]),
    ],
    {
      timeoutMs: 30 * minutes,
      env: { ...process.env, CSC_IDENTITY_AUTO_DISCOVERY: signs() ? 'true' : 'false' },
    },
  );
  if (result.code !== 0) {
    process.stderr.write(result.output);
    throw new ScriptError('electron-builder failed.', 'Its own words are above.');
  }
  say(`Built the app${signs() ? '' : ', unsigned: no certificate was given'}.`);
}

function signs() {
  return Boolean(process.env['CSC_LINK'] ?? process.env['WIN_CSC_LINK']);
}

function checkApp() {
  const unpacked = readdirSync(out).find((name) => /unpacked$|^mac/.test(name));
  if (unpacked === undefined) throw new ScriptError('electron-builder left no unpacked app to look at.');
  const problems = checkPackage(placesOf(path.join(out, unpacked)));
  if (problems.length > 0) throw new ScriptError(`The app is not as it should be:\n${problems.join('\n')}`);
  say('Checked the app: files, engine, licences, fuses, sizes.');
}

function placesOf(directory) {
  if (process.platform === 'darwin') {
    const contents = path.join(directory, 'Covey.app', 'Contents');
    const framework = path.join(contents, 'Frameworks', 'Electron Framework.framework', 'Electron Framework');
    return { program: framework, resources: path.join(contents, 'Resources') };
  }
  const program = process.platform === 'win32' ? 'Covey.exe' : 'covey-desktop';
  return { program: path.join(directory, program), resources: path.join(directory, 'resources') };
}

/** Packs a directory into build/release/out. */
async function archive(place, directory, name) {
  const made = await run('tar', ['-czf', path.join(out, name), '-C', place, directory], {
    timeoutMs: 10 * minutes,
  });
  if (made.code !== 0) throw new ScriptError(`tar failed: ${made.output}`);
  say(`Made ${name}.`);
}

async function writeSums() {
  const lines = [];
  for (const entry of readdirSync(out, { withFileTypes: true })) {
    if (!entry.isFile() || /\.(ya?ml|blockmap|txt)$/.test(entry.name) || entry.name === 'SHA256SUMS')
      continue;
    const hash = createHash('sha256');
    await pipeline(createReadStream(path.join(out, entry.name)), hash);
    lines.push(`${hash.digest('hex')}  ${entry.name}`);
  }
  writeFileSync(path.join(out, 'SHA256SUMS'), `${lines.sort().join('\n')}\n`);
}
