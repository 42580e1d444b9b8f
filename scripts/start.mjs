import { spawn } from 'node:child_process';
import { bootstrap } from './lib/bootstrap.mjs';
import { ensureBuild } from './lib/build.mjs';
import { runScript } from './lib/console.mjs';
import { pinnedNode } from './lib/packages.mjs';
import { inRoot } from './lib/paths.mjs';
import { forwardSignals } from './lib/run.mjs';

/** `npm start [-- OPTIONS]`: builds what is needed and runs `covey controller OPTIONS` until it is stopped. */
await runScript(async () => {
  await bootstrap();
  await ensureBuild();
  const { prepareEngine } = await import('./lib/engine.mjs');
  await prepareEngine();
  const child = spawn(pinnedNode(), [inRoot('bin', 'covey.mjs'), 'controller', ...process.argv.slice(2)], {
    stdio: 'inherit',
  });
  forwardSignals(child);
  return await new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('exit', (code) => resolve(code ?? 1));
  });
});
