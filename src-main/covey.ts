import { setFlagsFromString } from 'node:v8';

/** Entry of the `covey` command: roles run here until they are stopped, everything else is the API client. */
const [first, ...rest] = process.argv.slice(2);

// Whoever started us with a channel (see bin/covey.mjs) wants us to end with it.
process.once('disconnect', () => process.kill(process.pid, 'SIGTERM'));
process.channel?.unref();

if (first === 'controller' || first === 'worker') {
  // A worker's main process passes messages on: a young generation that grew at the start is idle memory.
  if (first === 'worker') setFlagsFromString('--semi-space-growth-factor=1');
  const { runController, runWorker } = await import('./headless.ts');
  // A role has said that it is done: whatever still holds the event loop (standard input, say) does not count.
  process.exit(await (first === 'controller' ? runController(rest) : runWorker(rest)));
} else {
  const { runCli } = await import('./cli/main.ts');
  const { processIo } = await import('./cli/process-io.ts');
  const io = processIo(async (source, destination) => {
    const { copyDatabase } = await import('./controller/state/sqlite/copy-database.ts');
    await copyDatabase(source, destination);
  });
  process.exitCode = await runCli(process.argv.slice(2), io);
}
