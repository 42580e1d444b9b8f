import { ensureEngine } from '../build-engine.mjs';
import { ScriptError, duration, say } from './console.mjs';
import { root } from './paths.mjs';

/**
 * The engine directory of this checkout, built when it is not in the cache (minutes, once per machine).
 * @returns {Promise<{ dir: string, buildId: string, cached: boolean }>}
 */
export async function prepareEngine() {
  const startedAt = Date.now();
  let engine;
  try {
    engine = await ensureEngine({ root, log: say });
  } catch (error) {
    throw new ScriptError(`The engine could not be built: ${error instanceof Error ? error.message : error}`);
  }
  if (!engine.cached) say(`Engine ${engine.buildId} built (${duration(Date.now() - startedAt)}).`);
  return engine;
}
