import { mkdirSync } from 'node:fs';
import path from 'node:path';
import type { NodeId } from '#shared/lib/ids.ts';
import type { Logger } from '#shared/lib/logger.ts';
import {
  controllerFrame,
  workerFrame,
  type ControllerFrame,
  type WorkerFrame,
} from '#shared/protocol/session.ts';
import {
  createArtifactService,
  type ArtifactService,
} from '../../src-main/controller/artifacts/artifact-service.ts';
import { createArtifactRecordStore } from '../../src-main/controller/state/sqlite/artifact-store.ts';
import { openDatabase } from '../../src-main/controller/state/sqlite/database.ts';
import { createHasher } from '../../src-main/nodejs/artifacts/hasher.ts';
import { openArtifactStore, type ArtifactStore } from '../../src-main/nodejs/artifacts/store.ts';
import { entries } from '../../src-main/nodejs/entries.ts';
import { createChildProcessHost } from '../../src-main/nodejs/process-host/child-process-host.ts';
import { makeIdentity, silentLogger } from '../../src-main/nodejs/transport/fixtures.ts';
import { createTransport } from '../../src-main/nodejs/transport/transport-client.ts';
import type { Member, Transport } from '../../src-main/nodejs/transport/transport.ts';
import { createLentDisk } from '../../src-worker/lend/lent-disk.ts';
import { createArtifactCache, type SessionArtifactCache } from '../../src-worker/artifacts/artifact-cache.ts';

/** A worker's artifacts, with a transport process and a hashing process of its own. */
export interface ArtifactMachine {
  readonly nodeId: NodeId;
  readonly directory: string;
  readonly store: ArtifactStore;
  readonly cache: SessionArtifactCache;
  readonly transport: Transport;
  /** What its owner lends of the disk. */
  quotaBytes: number | null;
  /** Its session and its port are gone, or back. */
  setConnected(connected: boolean): void;
}

export interface ArtifactMachines {
  readonly controllerId: NodeId;
  readonly controller: ArtifactService;
  readonly controllerStore: ArtifactStore;
  /** The controller's setting. */
  readonly controllerLimits: { quotaBytes: number | null };
  readonly workers: readonly ArtifactMachine[];
  close(): Promise<void>;
}

/**
 * A controller's and some workers' artifacts as they are in the product, but for the sessions: their frames are
 * handed over in this process, parsed as they would be.
 */
export async function startArtifactMachines(
  directory: string,
  count: number,
  options: { readonly graceMs?: number; readonly logger?: Logger } = {},
): Promise<ArtifactMachines> {
  const logger = options.logger ?? silentLogger;
  const clock = { now: Date.now };
  const processHost = createChildProcessHost(entries);
  const closers: Array<() => Promise<void> | void> = [];
  const identities = await Promise.all(Array.from({ length: count + 1 }, () => makeIdentity()));
  const names = identities.map((_identity, index) => (index === 0 ? 'controller' : `m${index}`));
  const members = identities.map(({ nodeId }, index): Member => ({
    nodeId,
    name: names[index] as string,
    role: index === 0 ? 'controller' : 'worker',
  }));
  const open = async (index: number): Promise<{ store: ArtifactStore; transport: Transport; at: string }> => {
    const at = path.join(directory, names[index] as string);
    mkdirSync(at, { recursive: true });
    const store = await openArtifactStore(path.join(at, 'artifacts'));
    const transport = await createTransport({
      processHost,
      identity: identities[index] as (typeof identities)[number],
      role: index === 0 ? 'controller' : 'worker',
      listen: { host: '127.0.0.1', port: 0 },
      gatewaySocket: null,
      artifactDirectory: store.directory,
      members: members.filter((_member, other) => other !== index),
      logger,
    });
    closers.push(() => transport.close());
    return { store, transport, at };
  };

  const own = await open(0);
  const controllerLimits: { quotaBytes: number | null } = { quotaBytes: null };
  const database = openDatabase(path.join(own.at, 'covey.db'));
  const workers = new Map<NodeId, ArtifactMachine & { connected: boolean }>();
  const addresses = (transport: Transport) => (transport.clusterAddress ? [transport.clusterAddress] : []);
  const toWorker = (nodeId: NodeId, frame: ControllerFrame): boolean => {
    const worker = workers.get(nodeId);
    if (!worker?.connected) return false;
    const parsed = controllerFrame.parse(JSON.parse(JSON.stringify(frame)));
    setImmediate(() => {
      if (
        parsed.type === 'artifact-sources' ||
        parsed.type === 'artifact-grant' ||
        parsed.type === 'artifacts-free'
      ) {
        worker.cache.onFrame(parsed);
      }
    });
    return true;
  };
  const controller = createArtifactService({
    store: own.store,
    hasher: createHasher(processHost),
    records: createArtifactRecordStore(database),
    transport: own.transport,
    self: {
      nodeId: members[0]?.nodeId as NodeId,
      name: 'controller',
      addresses: () => addresses(own.transport),
    },
    send: toWorker,
    broadcast: (frame) => [...workers.keys()].forEach((nodeId) => toWorker(nodeId, frame)),
    member(nodeId) {
      const worker = workers.get(nodeId);
      return worker?.connected ? { name: nodeId.slice(0, 6), addresses: addresses(worker.transport) } : null;
    },
    rttMs: () => null,
    quotaBytes: () => controllerLimits.quotaBytes,
    job: () => ({ name: 'job', isInput: () => true, resultName: () => undefined }),
    clock,
    logger,
    ...(options.graceMs === undefined ? {} : { graceMs: options.graceMs }),
  });
  closers.push(() => {
    controller.close();
    database.close();
  });

  for (let index = 1; index <= count; index += 1) {
    const { store, transport, at } = await open(index);
    const nodeId = members[index]?.nodeId as NodeId;
    const hasher = createHasher(processHost);
    const toController = (frame: WorkerFrame): boolean => {
      const worker = workers.get(nodeId);
      if (!worker?.connected) return false;
      const parsed = workerFrame.parse(JSON.parse(JSON.stringify(frame)));
      setImmediate(() => {
        if (parsed.type === 'artifact-wanted') controller.onWanted(nodeId, parsed);
        else if (parsed.type === 'artifacts-held') controller.onHeld(nodeId, parsed);
      });
      return true;
    };
    const worker: ArtifactMachine & { connected: boolean } = {
      nodeId,
      directory: at,
      store,
      transport,
      quotaBytes: null,
      connected: true,
      cache: await createArtifactCache({
        store,
        hasher,
        shared: false,
        transport,
        disk: createLentDisk(() => worker.quotaBytes),
        send: toController,
        clock,
        logger,
      }),
      setConnected(connected) {
        worker.connected = connected;
        transport.setMembers(connected ? members.filter((member) => member.nodeId !== nodeId) : []);
        if (connected) worker.cache.onWelcome();
        else controller.onGone(nodeId);
      },
    };
    workers.set(nodeId, worker);
    worker.cache.onWelcome();
    closers.push(() => {
      worker.cache.close();
      hasher.close();
    });
  }
  return {
    controllerId: members[0]?.nodeId as NodeId,
    controller,
    controllerStore: own.store,
    controllerLimits,
    workers: [...workers.values()],
    async close() {
      for (const closer of closers.reverse()) await closer();
    },
  };
}
