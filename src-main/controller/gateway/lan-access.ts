import type { Clock } from '#shared/lib/clock.ts';
import { CoveyError } from '#shared/errors.ts';
import type { Logger } from '#shared/lib/logger.ts';
import type { Settings } from '#shared/settings.ts';
import {
  ensureOwnCertificate,
  readUserCertificate,
  type LanCertificate,
} from '../../nodejs/access/lan-certificate.ts';
import { inUrl, lanNames, type LanNames } from '../../nodejs/access/lan-names.ts';
import type { HttpServer, TlsCertificate } from '../../nodejs/http/http-server.ts';
import type { LanPort } from '../../nodejs/settings/settings-port.ts';
import type { SettingsStore } from '../../nodejs/settings/settings-store.ts';
import type { NotedKind } from '../state/events.ts';

/** The API for other machines: on while it is wished for and there is a key that could be used. */
export interface LanAccess extends LanPort {
  /** Looks again at settings, keys, names and the certificate's age. */
  refresh(): void;
  close(): Promise<void>;
}

export interface LanAccessOptions {
  readonly dataDirectory: string;
  readonly settings: SettingsStore;
  readonly hasKeys: () => boolean;
  readonly startServer: (lan: {
    port: number;
    certificate: TlsCertificate;
    names: () => readonly string[];
  }) => Promise<HttpServer>;
  readonly clock: Clock;
  readonly note: (kind: NotedKind, level: 'info' | 'warn' | 'error', message: string) => void;
  readonly logger: Logger;
  /** For tests. */
  readonly ensureCertificate?: typeof ensureOwnCertificate;
  readonly namesOf?: typeof lanNames;
}

/** Addresses change with the network; the certificate's age is looked at on the way. */
const refreshMs = 30_000;

export function createLanAccess(options: LanAccessOptions): LanAccess {
  const { settings, clock, logger, note, namesOf = lanNames } = options;
  const ensureCertificate = options.ensureCertificate ?? ensureOwnCertificate;
  let server: HttpServer | null = null;
  let port = 0;
  let certificate: LanCertificate | null = null;
  let names: LanNames = { hosts: [], addresses: [] };
  let hostNames: readonly string[] = [];
  let problems: string[] = [];
  let renewalProblem: string | null = null;
  let queue: Promise<void> = Promise.resolve();
  let closed = false;

  const stop = async (): Promise<void> => {
    const running = server;
    server = null;
    certificate = null;
    await running?.close();
  };

  const obtain = async ({ certificateFile, keyFile }: Settings['lan']): Promise<LanCertificate> => {
    if (certificateFile !== null && keyFile !== null) {
      return readUserCertificate(certificateFile, keyFile, clock.now());
    }
    const own = await ensureCertificate(options.dataDirectory, names, clock.now());
    if (own.problem !== null && own.problem !== renewalProblem) {
      note('certificate-renewal-failed', 'error', own.problem);
    }
    renewalProblem = own.problem;
    if (own.isNew) {
      const day = new Date(own.expiresAt).toISOString().slice(0, 10);
      note('certificate-renewed', 'info', `A new certificate for LAN access is in use, until ${day}.`);
    }
    if (own.problem !== null) problems.push(own.problem);
    return own;
  };

  /**
   * 1. Off: stop.  2. No key: stop, and say so.  3. Names of now.  4. A certificate; without one, what runs goes on.
   * 5. Another port: stop.  6. Start, or hand the new certificate to what runs.
   */
  const apply = async (): Promise<void> => {
    problems = [];
    const { lan, api } = settings.current;
    if (!lan.enabled || closed) return stop();
    if (!options.hasKeys()) {
      problems.push(needsKey);
      return stop();
    }
    names = namesOf(api.allowedHosts);
    hostNames = [...names.hosts, ...names.addresses.map(inUrl), 'localhost', '127.0.0.1', '[::1]'];
    let next: LanCertificate;
    try {
      next = await obtain(lan);
    } catch (error) {
      const sentence = CoveyError.from(error).message;
      problems.push(sentence);
      if (sentence !== renewalProblem) note('certificate-renewal-failed', 'error', sentence);
      renewalProblem = sentence;
      return;
    }
    if (server !== null && port !== lan.port) await stop();
    if (server === null) {
      server = await options.startServer({
        port: lan.port,
        certificate: next.tls,
        names: () => hostNames,
      });
      port = lan.port;
      logger.info('LAN access is on', { port });
    } else if (next.fingerprint !== certificate?.fingerprint) {
      server.setCertificate(next.tls);
    }
    certificate = next;
  };

  const refresh = (): void => {
    queue = queue.then(apply).catch((error: unknown) => {
      const sentence = CoveyError.from(error).message;
      if (!problems.includes(sentence)) problems.push(sentence);
      logger.warn('LAN access is not as it was set', { reason: sentence });
    });
  };

  const removeListener = settings.onChange(refresh);
  const timer = setInterval(() => settings.current.lan.enabled && refresh(), refreshMs);
  refresh();

  return {
    get addresses() {
      return server === null ? [] : names.addresses.map((address) => `https://${inUrl(address)}:${port}`);
    },
    get certificate() {
      if (certificate === null) return null;
      const { fingerprint, caFingerprint, expiresAt } = certificate;
      return { fingerprint, caFingerprint, expiresAt };
    },
    get problems() {
      return problems;
    },
    allow(next) {
      const wasOn = settings.current.lan.enabled;
      if (next.lan.enabled && !wasOn && !options.hasKeys()) {
        throw new CoveyError('lan_needs_key', needsKey, { field: 'lan.enabled' });
      }
    },
    settled: () => queue,
    refresh,
    async close() {
      closed = true;
      removeListener();
      clearInterval(timer);
      refresh();
      await queue;
    },
  };
}

const needsKey =
  'LAN access needs an API key, for callers to show: make one first with "covey keys create NAME".';
