import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { checkout } from './checkout.ts';

interface EngineScript {
  readonly prepareEngine: () => Promise<{ dir: string; buildId: string; cached: boolean }>;
}

/** Before the native suite: the engine is there, and tests find it in COVEY_ENGINE_DIR. */
export async function setup(): Promise<void> {
  const script = pathToFileURL(path.join(checkout, 'scripts', 'lib', 'engine.mjs')).href;
  const { prepareEngine } = (await import(script)) as EngineScript;
  process.env['COVEY_ENGINE_DIR'] = (await prepareEngine()).dir;
}
