import { bootstrap } from './lib/bootstrap.mjs';
import { duration, runScript } from './lib/console.mjs';
import { brokenLinks } from './lib/doc-links.mjs';
import { pinnedNode } from './lib/packages.mjs';
import { inRoot } from './lib/paths.mjs';
import { run } from './lib/run.mjs';

/** `npm run check`: what must hold before a test is worth running. One line per step; every step runs. */
const modules = (...parts) => inRoot('node_modules', ...parts);
const steps = [
  ['types, shared code', modules('typescript', 'bin', 'tsc'), '-p', 'tsconfig.shared.json'],
  ['types, Node.js code', modules('typescript', 'bin', 'tsc'), '-p', 'tsconfig.node.json'],
  ['types, desktop app', modules('typescript', 'bin', 'tsc'), '-p', 'tsconfig.electron.json'],
  ['types, pages', modules('typescript', 'bin', 'tsc'), '-p', 'tsconfig.renderer.json'],
  ['types, browser tests', modules('typescript', 'bin', 'tsc'), '-p', 'tsconfig.browser.json'],
  ['types, scripts', modules('typescript', 'bin', 'tsc'), '-p', 'tsconfig.scripts.json'],
  ['lint', modules('eslint', 'bin', 'eslint.js'), '.', '--max-warnings=0'],
  [
    'import rules',
    modules('dependency-cruiser', 'bin', 'dependency-cruiser.mjs'),
    'src-main',
    'src-worker',
    'src-renderer',
    'e2e',
  ],
  ['formatting', modules('prettier', 'bin', 'prettier.cjs'), '--check', '.'],
];

await runScript(async () => {
  await bootstrap();
  let failed = 0;
  const report = (name, startedAt, problem) => {
    console.log(`${problem === null ? 'ok    ' : 'FAILED'} ${name} (${duration(Date.now() - startedAt)})`);
    if (problem === null) return;
    failed += 1;
    console.log(problem.trimEnd());
  };
  for (const [name, ...command] of steps) {
    const startedAt = Date.now();
    const result = await run(pinnedNode(), command, { timeoutMs: 5 * 60_000 });
    const late = result.timedOut ? '\nnot done after 5 minutes' : '';
    report(name, startedAt, result.code === 0 ? null : result.output + late);
  }
  const startedAt = Date.now();
  const links = brokenLinks();
  report('links in the documentation', startedAt, links.length === 0 ? null : links.join('\n'));
  return failed === 0 ? 0 : 1;
});
