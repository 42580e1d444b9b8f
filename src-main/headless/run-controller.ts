import { startControllerNode } from '../roles/controller-node.ts';
import type { ControllerArguments } from './arguments.ts';
import { layHeadlessFoundation } from './foundation.ts';
import { announce, exitOnUncaught, reportOf, runUntilStopped } from './lifecycle.ts';

/** Starts the controller, with `lend` also a worker in the same process, and runs until stopped. */
export async function startController(options: ControllerArguments): Promise<number> {
  const foundation = await layHeadlessFoundation(options);
  exitOnUncaught(foundation.logger);
  const node = await startControllerNode({ ...options, foundation });
  try {
    await announce(
      reportOf(node),
      `Covey controller ${node.name} is up.\n  API      ${node.apiAddress}/v1\n  cluster  ${node.clusterAddress}\nAdd a machine: start "covey worker" there, then "covey join".`,
      options,
    );
    return await runUntilStopped(node.close, foundation.logger, options);
  } catch (error) {
    await node.close();
    throw error;
  }
}
