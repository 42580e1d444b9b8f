/** Who may import whom: docs/architecture.md, "Layout". Type imports count. */
module.exports = {
  forbidden: [
    { name: 'no-cycles', severity: 'error', from: {}, to: { circular: true } },
    {
      name: 'shared-is-pure',
      comment: 'shared imports itself and zod only',
      severity: 'error',
      from: { path: '^src-main/shared', pathNot: '\\.test\\.ts$' },
      to: { pathNot: ['^src-main/shared', '^node_modules/zod'] },
    },
    {
      name: 'only-shell-imports-electron',
      severity: 'error',
      from: { pathNot: '^src-main/electron' },
      to: { path: '^(node_modules/)?electron' },
    },
    {
      name: 'nodejs-library-is-below-roles',
      severity: 'error',
      from: { path: '^src-main/nodejs' },
      to: { path: '^src-main/(controller|cli|electron)|^src-worker|^e2e' },
    },
    {
      name: 'worker-never-imports-controller',
      severity: 'error',
      from: { path: '^src-worker' },
      to: { path: '^src-main/(controller|cli|electron)' },
    },
    {
      name: 'controller-never-imports-worker',
      severity: 'error',
      from: { path: '^src-main/controller' },
      to: { path: '^src-worker' },
    },
    {
      name: 'cli-is-an-api-client',
      severity: 'error',
      from: { path: '^src-main/cli' },
      to: { path: '^src-main/controller|^src-worker' },
    },
    {
      name: 'renderer-sees-the-contract-only',
      severity: 'error',
      from: { path: '^src-renderer' },
      to: { path: '^src-main', pathNot: '^src-main/shared/(api|domain|errors|lib|settings)' },
    },
    {
      name: 'pure-controller-parts',
      comment: 'plan, placement and state functions import shared and each other only',
      severity: 'error',
      from: {
        path: '^src-main/controller/(scheduler|placement|state/[^/]+\\.ts$)',
        pathNot: '\\.test\\.ts$',
      },
      to: { pathNot: ['^src-main/shared', '^src-main/controller/(scheduler|placement|state/[^/]+\\.ts$)'] },
    },
    {
      name: 'pure-agent',
      comment: 'the step function imports shared and its own parts only',
      severity: 'error',
      from: { path: '^src-worker/agent', pathNot: '\\.test\\.ts$' },
      to: { pathNot: ['^src-main/shared', '^src-worker/agent', '^node_modules/zod'] },
    },
    { name: 'imports-resolve', severity: 'error', from: {}, to: { couldNotResolve: true } },
    {
      name: 'sql-lives-in-state-sqlite',
      severity: 'error',
      from: { pathNot: '^src-main/controller/state/sqlite|^e2e|\\.test\\.ts$' },
      to: { path: 'better-sqlite3' },
    },
    {
      name: 'product-never-imports-tests',
      severity: 'error',
      from: { path: '^src-', pathNot: '\\.test\\.ts$' },
      to: { path: '^e2e' },
    },
  ],
  options: {
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.node.json' },
    doNotFollow: { path: 'node_modules' },
    exclude: { path: '^(dist|build)/' },
    enhancedResolveOptions: {
      extensions: ['.ts', '.tsx', '.mjs', '.js'],
      exportsFields: ['exports'],
      conditionNames: ['import', 'node', 'default', 'types'],
    },
  },
};
