import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { CoveyError } from '#shared/errors.ts';
import type { OwnCertificate } from '../../nodejs/access/lan-certificate.ts';
import { recordingLogger } from '../../nodejs/http/fixtures.ts';
import type { TlsCertificate } from '../../nodejs/http/http-server.ts';
import { openSettings, type SettingsStore } from '../../nodejs/settings/settings-store.ts';
import { createLanAccess, type LanAccess } from './lan-access.ts';

let directory: string;
let settings: SettingsStore;
let lan: LanAccess;
/** What the servers were told. */
let steps: string[];
let notes: string[];
let hasKeys: boolean;
let addresses: string[];
let certificate: () => Partial<OwnCertificate>;
let listening: CoveyError | null;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'covey-lan-access-'));
  settings = await openSettings(directory);
  [steps, notes, hasKeys, addresses, listening] = [[], [], true, ['192.168.1.5'], null];
  certificate = () => ({ fingerprint: 'f1' });
  lan = createLanAccess({
    dataDirectory: directory,
    settings,
    hasKeys: () => hasKeys,
    startServer: ({ port, certificate: { cert } }) => {
      if (listening) return Promise.reject(listening);
      steps.push(`start ${port} ${cert}`);
      return Promise.resolve({
        port,
        setCertificate: (next: TlsCertificate) => void steps.push(`certificate ${next.cert}`),
        close: () => Promise.resolve(void steps.push('close')),
      });
    },
    clock: { now: () => 1_000 },
    note: (kind, _level, message) => void notes.push(`${kind}: ${message}`),
    logger: recordingLogger(),
    namesOf: () => ({ hosts: ['desk'], addresses }),
    ensureCertificate: async () => {
      const made = {
        fingerprint: 'f1',
        caFingerprint: 'ca',
        expiresAt: 9,
        isNew: false,
        problem: null,
        ...certificate(),
      };
      return { tls: { key: 'k', cert: made.fingerprint }, ...made };
    },
  });
});
afterEach(async () => {
  await lan.close();
  await rm(directory, { recursive: true });
});

async function set(patch: object): Promise<void> {
  await settings.patch(patch, (next) => lan.allow(next));
  await lan.settled();
}

describe('LAN access', () => {
  it('is off, goes on with a key and off again, live', async () => {
    await lan.settled();
    expect([lan.addresses, lan.certificate, lan.problems, steps]).toEqual([[], null, [], []]);
    await set({ lan: { enabled: true } });
    expect(lan.addresses).toEqual(['https://192.168.1.5:7880']);
    expect(lan.certificate).toEqual({ fingerprint: 'f1', caFingerprint: 'ca', expiresAt: 9 });
    await set({ lan: { enabled: false } });
    expect([lan.addresses, lan.certificate]).toEqual([[], null]);
    expect(steps).toEqual(['start 7880 f1', 'close']);
  });

  it('is refused without a key, and stops when the last one is gone', async () => {
    hasKeys = false;
    await expect(set({ lan: { enabled: true } })).rejects.toMatchObject({ code: 'lan_needs_key' });
    expect(settings.current.lan.enabled).toBe(false);
    hasKeys = true;
    await set({ lan: { enabled: true } });
    hasKeys = false;
    lan.refresh();
    await lan.settled();
    expect(steps).toEqual(['start 7880 f1', 'close']);
    expect(lan.problems).toEqual([expect.stringContaining('covey keys create')]);
  });

  it('moves to another port', async () => {
    await set({ lan: { enabled: true } });
    await set({ lan: { port: 8443 } });
    expect(steps).toEqual(['start 7880 f1', 'close', 'start 8443 f1']);
    expect(lan.addresses).toEqual(['https://192.168.1.5:8443']);
  });

  it('says when its port is taken, and takes it when it is free', async () => {
    listening = new CoveyError('port_in_use', 'Port 7880 is in use by "other".');
    await set({ lan: { enabled: true } });
    expect([lan.problems, lan.addresses]).toEqual([['Port 7880 is in use by "other".'], []]);
    listening = null;
    lan.refresh();
    await lan.settled();
    expect([lan.problems, steps]).toEqual([[], ['start 7880 f1']]);
  });

  it('hands a new certificate to what runs, and tells', async () => {
    await set({ lan: { enabled: true } });
    certificate = () => ({ fingerprint: 'f2', isNew: true });
    addresses = ['10.0.0.9'];
    lan.refresh();
    await lan.settled();
    expect(steps).toEqual(['start 7880 f1', 'certificate f2']);
    expect(lan.addresses).toEqual(['https://10.0.0.9:7880']);
    expect(notes).toEqual([expect.stringMatching(/^certificate-renewed: .*1970-01-01/)]);
  });

  it('keeps the old certificate when a renewal fails, names it, and tells once', async () => {
    await set({ lan: { enabled: true } });
    const problem = 'A new certificate could not be written: ENOSPC.';
    certificate = () => ({ problem });
    for (let count = 0; count < 3; count++) {
      lan.refresh();
      await lan.settled();
    }
    expect(steps).toEqual(['start 7880 f1']);
    expect(lan.problems).toEqual([problem]);
    expect(notes).toEqual([`certificate-renewal-failed: ${problem}`]);
    certificate = () => ({});
    lan.refresh();
    await lan.settled();
    expect(lan.problems).toEqual([]);
  });

  it("goes on with what it has when the user's files are gone", async () => {
    await set({ lan: { enabled: true } });
    await set({ lan: { certificateFile: '/nowhere/c.pem', keyFile: '/nowhere/k.pem' } });
    expect(steps).toEqual(['start 7880 f1']);
    expect(lan.problems).toEqual([
      expect.stringContaining('lan.certificateFile: /nowhere/c.pem cannot be read'),
    ]);
  });
});
