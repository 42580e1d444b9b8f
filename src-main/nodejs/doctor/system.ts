import { constants, open, readFile, readdir, rm, stat, statfs } from 'node:fs/promises';
import { lookup } from 'node:dns/promises';
import { connect } from 'node:net';
import { hostname, networkInterfaces } from 'node:os';
import { join } from 'node:path';
import type { Address } from '#shared/domain/node.ts';
import { portUses, type PortQuestion, type PortUse } from '../port-users.ts';
import { runCommand, type RunCommand } from '../run-command.ts';
import { probeMulticast, type InterfaceAddress, type MulticastEcho } from './multicast-probe.ts';

export interface FileFacts {
  readonly path: string;
  readonly kind: 'file' | 'directory' | 'other';
  /** Permission bits. */
  readonly mode: number;
  readonly uid: number;
  /** Epoch ms. */
  readonly modifiedAt: number;
}

/**
 * What the checks ask of the machine. Nothing here rejects unless it says so; everything ends within seconds.
 * Tests pass their own.
 */
export interface DoctorSystem {
  readonly platform: NodeJS.Platform;
  /** null where users have no numbers. */
  readonly uid: number | null;
  /** Of this process. */
  readonly pid: number;
  readonly nodeVersion: string;
  /** Epoch ms. */
  now(): number;
  hostname(): string;
  /** Without loopback. */
  addresses(): InterfaceAddress[];
  run: RunCommand;
  /** The first 64 KiB; null when it cannot be read. */
  readText(path: string): Promise<string | null>;
  /** Names in a directory; empty when it cannot be read. */
  list(path: string): Promise<string[]>;
  /** null: there is nothing. Rejects when it may not be looked at. */
  look(path: string): Promise<FileFacts | null>;
  /** Rejects with the system's error. */
  space(path: string): Promise<{ readonly freeBytes: number; readonly freeFiles: number | null }>;
  /** Writes 4 KiB into a new file there, flushes and removes it. The error's code, null when it went well. */
  tryWriting(directory: string): Promise<string | null>;
  /** Addresses of a host name. Rejects with the resolver's error. */
  resolve(name: string): Promise<string[]>;
  /** TCP. null: it was accepted; else the error's code. */
  dial(address: Address, timeoutMs: number): Promise<string | null>;
  ports(questions: readonly PortQuestion[]): Promise<PortUse[]>;
  /** Process id of a process's parent; null when it cannot be known. */
  parentOf(pid: number): Promise<number | null>;
  multicast(addresses: readonly InterfaceAddress[]): Promise<MulticastEcho>;
}

const maxTextBytes = 64 * 1024;
const maxNames = 4_096;
const lookupMs = 3_000;

/** The real machine. */
export function createDoctorSystem(): DoctorSystem {
  return {
    platform: process.platform,
    uid: process.getuid?.() ?? null,
    pid: process.pid,
    nodeVersion: process.versions.node,
    now: Date.now,
    hostname,
    addresses: () =>
      Object.entries(networkInterfaces()).flatMap(([name, entries]) =>
        (entries ?? [])
          .filter((entry) => !entry.internal)
          .map(({ address, family, netmask }) => ({ name, address, family, netmask })),
      ),
    run: runCommand,
    async readText(path) {
      try {
        const file = await open(path, 'r');
        try {
          const { buffer, bytesRead } = await file.read(Buffer.alloc(maxTextBytes), 0, maxTextBytes, 0);
          return buffer.toString('utf8', 0, bytesRead);
        } finally {
          await file.close();
        }
      } catch {
        return null;
      }
    },
    list: async (path) => (await readdir(path).catch(() => [])).slice(0, maxNames),
    async look(path) {
      try {
        const found = await stat(path);
        const kind = found.isFile() ? 'file' : found.isDirectory() ? 'directory' : 'other';
        return { path, kind, mode: found.mode & 0o777, uid: found.uid, modifiedAt: found.mtimeMs };
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
        throw error;
      }
    },
    async space(path) {
      const { bavail, bsize, files, ffree } = await statfs(path);
      // File systems that make inodes as they need them say zero of zero.
      return { freeBytes: bavail * bsize, freeFiles: files > 0 ? ffree : null };
    },
    tryWriting,
    async resolve(name) {
      const found = await withinMs(
        lookup(name, { all: true }),
        lookupMs,
        `no answer in ${lookupMs / 1_000} s`,
      );
      return found.map(({ address }) => address);
    },
    dial: (address, timeoutMs) =>
      new Promise((resolve) => {
        const socket = connect({ host: address.host, port: address.port });
        const end = (problem: string | null): void => {
          clearTimeout(timer);
          socket.destroy();
          resolve(problem);
        };
        const timer = setTimeout(() => end('ETIMEDOUT'), timeoutMs);
        socket.once('connect', () => end(null));
        socket.on('error', (error: NodeJS.ErrnoException) => end(error.code ?? error.message));
      }),
    ports: (questions) => portUses(questions),
    parentOf,
    multicast: probeMulticast,
  };
}

/** `promise`, or a rejection with this message once the time is over. */
export async function withinMs<T>(promise: Promise<T>, limitMs: number, message: string): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error(message)), limitMs);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

async function tryWriting(directory: string): Promise<string | null> {
  const path = join(directory, `.doctor-${process.pid}-${Math.random().toString(36).slice(2, 10)}`);
  try {
    const file = await open(path, constants.O_CREAT | constants.O_EXCL | constants.O_WRONLY, 0o600);
    try {
      await file.writeFile(Buffer.alloc(4_096, 1));
      await file.sync();
    } finally {
      await file.close();
    }
    return null;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code ?? String(error);
  } finally {
    await rm(path, { force: true }).catch(() => undefined);
  }
}

async function parentOf(pid: number): Promise<number | null> {
  if (process.platform === 'linux') {
    const text = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '');
    // The name in parentheses may hold anything; fields are counted after the last one.
    const parent = Number(text.slice(text.lastIndexOf(')') + 2).split(' ')[1]);
    return Number.isInteger(parent) && parent > 0 ? parent : null;
  }
  if (process.platform !== 'darwin') return null;
  const outcome = await runCommand('ps', ['-o', 'ppid=', '-p', String(pid)]);
  const parent = outcome.ok ? Number(outcome.stdout.trim()) : 0;
  return parent > 0 ? parent : null;
}
