/** Entry of the `covey` command: roles run here until they are stopped, everything else is the API client. */
const [first, ...rest] = process.argv.slice(2);

if (first === 'controller' || first === 'worker') {
  const { runController, runWorker } = await import('./headless.ts');
  process.exitCode = await (first === 'controller' ? runController(rest) : runWorker(rest));
} else {
  const { runCli } = await import('./cli/main.ts');
  process.exitCode = await runCli(process.argv.slice(2));
}
