import { openEngineDirectory } from '../../src-main/nodejs/engine-directory.ts';
import type { WorkerEngine } from '../worker-engine.ts';

/** For native tests: the engine that their global setup has built and named in COVEY_ENGINE_DIR. */
export async function testEngine(): Promise<Extract<WorkerEngine, { directory: string }>> {
  const opened = await openEngineDirectory(process.env['COVEY_ENGINE_DIR'] ?? '');
  if (!opened.ok) throw new Error(opened.error.message);
  const { dir, buildId, rpcProtocolVersion } = opened.value;
  return { directory: dir, buildId, rpcProtocol: rpcProtocolVersion };
}
