#!/usr/bin/env node
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const entry = new URL('../dist/covey.js', import.meta.url);
const ownNode = fileURLToPath(
  new URL(`../node_modules/node/bin/${process.platform === 'win32' ? 'node.exe' : 'node'}`, import.meta.url),
);

if (!existsSync(entry)) {
  process.stderr.write('covey is not built yet. Run "npm run build" in its directory, then try again.\n');
  process.exitCode = 1;
} else if (Number(process.versions.node.split('.')[0]) >= 24) {
  await import(entry.href);
} else if (existsSync(ownNode)) {
  // An older Node.js started this: the one that covey brings takes over, with the same streams and signals. The
  // channel tells it when this process is gone, however that came.
  const child = spawn(ownNode, process.argv.slice(1), { stdio: ['inherit', 'inherit', 'inherit', 'ipc'] });
  for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM', 'SIGHUP'])) {
    process.on(signal, () => child.kill(signal));
  }
  child.on('exit', (code, signal) => {
    process.exitCode = code ?? (signal === null ? 1 : 130);
  });
} else {
  process.stderr.write(`covey needs Node.js 24 or newer, this is ${process.versions.node}.\n`);
  process.exitCode = 1;
}
