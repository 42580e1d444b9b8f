import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { checkout } from './checkout.ts';
import { removeLeftoverNetworks } from './netns.ts';
import { setup as prepareEngine } from './setup-native.ts';

interface BuildScript {
  readonly ensureBuild: () => Promise<boolean>;
}

/** Before the cluster suite: the product is built, the engine is there, networks of dead runs are gone. */
export async function setup(): Promise<void> {
  const script = pathToFileURL(path.join(checkout, 'scripts', 'lib', 'build.mjs')).href;
  const { ensureBuild } = (await import(script)) as BuildScript;
  await ensureBuild();
  await prepareEngine();
  removeLeftoverNetworks();
}
