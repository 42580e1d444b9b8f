import { bootstrap, pinnedNode } from './lib/bootstrap.mjs';
import { duration, runScript } from './lib/console.mjs';
import { inRoot } from './lib/paths.mjs';
import { run } from './lib/run.mjs';

/** `npm run check`: what must hold before a test is worth running. One line per step; every step runs. */
const modules = (...parts) => inRoot('node_modules', ...parts);
const steps = [
  ['types, shared code', modules('typescript', 'bin', 'tsc'), '-p', 'tsconfig.shared.json'],
  ['types, Node.js code', modules('typescript', 'bin', 'tsc'), '-p', 'tsconfig.node.json'],
  ['types, scripts', modules('typescript', 'bin', 'tsc'), '-p', 'tsconfig.scripts.json'],
  ['lint', modules('eslint', 'bin', 'eslint.js'), '.', '--max-warnings=0'],
  [
    'import rules',
    modules('dependency-cruiser', 'bin', 'dependency-cruiser.mjs'),
    'src-main',
    'src-worker',
    'e2e',
  ],
  ['formatting', modules('prettier', 'bin', 'prettier.cjs'), '--check', '.'],
];

await runScript(async () => {
  await bootstrap();
  let failed = 0;
  for (const [name, ...command] of steps) {
    const startedAt = Date.now();
    const result = await run(pinnedNode(), command, { timeoutMs: 5 * 60_000 });
    const passed = result.code === 0;
    console.log(`${passed ? 'ok    ' : 'FAILED'} ${name} (${duration(Date.now() - startedAt)})`);
    if (!passed) {
      failed += 1;
      process.stdout.write(result.timedOut ? `${result.output}not done after 5 minutes\n` : result.output);
    }
  }
  return failed === 0 ? 0 : 1;
});
