#!/usr/bin/env node
import { existsSync } from 'node:fs';

const entry = new URL('../dist/covey.js', import.meta.url);
if (Number(process.versions.node.split('.')[0]) < 24) {
  process.stderr.write(
    `covey needs Node.js 24 or newer, this is ${process.versions.node}. In a checkout, "npx covey" uses its own.\n`,
  );
  process.exitCode = 1;
} else if (!existsSync(entry)) {
  process.stderr.write('covey is not built yet. Run "npm run build" in its directory, then try again.\n');
  process.exitCode = 1;
} else {
  await import(entry.href);
}
