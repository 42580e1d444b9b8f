import { appRoot } from './app-root.ts';
import { locateEngineDirectory, openEngineDirectory } from './engine-directory.ts';

/** The engine of this machine, or why there is none that can be used. */
export type OwnEngine =
  | { readonly directory: string; readonly buildId: string; readonly rpcProtocol: string }
  | { readonly directory: null; readonly reason: string };

/** @param override the directory that was named; without, the one that was built or came with the program */
export async function findOwnEngine(override?: string): Promise<OwnEngine> {
  const located = await locateEngineDirectory({ appRoot, ...(override === undefined ? {} : { override }) });
  if (!located.ok) return { directory: null, reason: located.error.message };
  const opened = await openEngineDirectory(located.value);
  if (!opened.ok) return { directory: null, reason: opened.error.message };
  const { dir, buildId, rpcProtocolVersion } = opened.value;
  return { directory: dir, buildId, rpcProtocol: rpcProtocolVersion };
}
