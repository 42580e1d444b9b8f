import { bootstrap } from './lib/bootstrap.mjs';
import { ensureBuild } from './lib/build.mjs';
import { runScript, say } from './lib/console.mjs';

/** `npm run build`: bundles the product into dist/. The engine is built by `npm run build:engine`. */
await runScript(async () => {
  await bootstrap();
  if (!(await ensureBuild())) say('dist/ is up to date.');
});
