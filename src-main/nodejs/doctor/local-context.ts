import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { NodeId } from '#shared/lib/ids.ts';
import { CoveyError } from '#shared/errors.ts';
import { defaultSettings } from '#shared/settings.ts';
import { nodeIdOfCertificate } from '../identity/node-id.ts';
import { findOwnEngine } from '../own-engine.ts';
import { openSettings } from '../settings/settings-store.ts';
import type { DoctorContext } from './context.ts';

/** What can be known of a machine on which no node runs, from its data directory alone. Never rejects. */
export async function localDoctorContext(dataDirectory: string, version: string): Promise<DoctorContext> {
  const [engine, settings] = await Promise.all([
    findEngine().catch((error: unknown) => ({ buildId: null, reason: CoveyError.from(error).message })),
    openSettings(dataDirectory).then(
      (store) => ({ settings: store.current, settingsProblem: null }),
      (error: unknown) => ({
        settings: defaultSettings,
        settingsProblem: CoveyError.from(error).toBody(),
      }),
    ),
  ]);
  return { dataDirectory, version, engine, ...settings, node: null };
}

/** The node that a data directory makes this machine; null when there is none, or it cannot be read. */
export async function localNodeId(dataDirectory: string): Promise<NodeId | null> {
  try {
    return nodeIdOfCertificate(await readFile(join(dataDirectory, 'identity', 'cert.pem')));
  } catch {
    return null;
  }
}

async function findEngine(): Promise<DoctorContext['engine']> {
  const engine = await findOwnEngine();
  return engine.directory === null ? { buildId: null, reason: engine.reason } : { buildId: engine.buildId };
}
