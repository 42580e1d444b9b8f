import { spawnSync } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { mkdir, mkdtemp, readFile, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createAuthority, createLeaf, missingNames } from './certificates.ts';
import { ensureOwnCertificate, readUserCertificate } from './lan-certificate.ts';
import { lanNames } from './lan-names.ts';

const dayMs = 86_400_000;
const now = Date.UTC(2026, 10, 30);
const names = { hosts: ['desk', 'desk.local'], addresses: ['192.168.1.5', 'fd00::5'] };
const diskFull = (): Promise<void> =>
  Promise.reject(new Error("ENOSPC: no space left on device, open '/x/certificate.pem.a1b2.tmp'"));
let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'covey-lan-'));
});
afterEach(() => rm(directory, { recursive: true }));

describe('our own', () => {
  it('is made once, for all names, signed by an authority that signs nothing else', async () => {
    const first = await ensureOwnCertificate(directory, names, now);
    expect(first).toMatchObject({ isNew: true, problem: null });
    const [leaf, ca] = first.tls.cert
      .split(/(?<=-----END CERTIFICATE-----\n)/)
      .map((pem) => new X509Certificate(pem));
    expect(missingNames(leaf as X509Certificate, names)).toEqual([]);
    expect(leaf?.checkHost('evil.example')).toBeUndefined();
    expect(leaf?.checkIP('192.168.1.6')).toBeUndefined();
    expect([leaf?.ca, ca?.ca]).toEqual([false, true]);
    expect(leaf?.checkIssued(ca as X509Certificate)).toBe(true);
    expect(first.expiresAt).toBe(now + 90 * dayMs);
    // A clock that is a day behind takes it too.
    expect(leaf?.validFromDate.getTime()).toBeLessThan(now - dayMs);
    expect(await ensureOwnCertificate(directory, names, now + dayMs)).toMatchObject({
      isNew: false,
      fingerprint: first.fingerprint,
      caFingerprint: first.caFingerprint,
    });
    if (process.platform !== 'win32') {
      for (const name of await readdir(join(directory, 'lan'))) {
        expect((await stat(join(directory, 'lan', name))).mode & 0o777).toBe(0o600);
      }
    }
  });

  it('is renewed at two thirds of its life, by the same authority', async () => {
    const first = await ensureOwnCertificate(directory, names, now);
    expect((await ensureOwnCertificate(directory, names, now + 59 * dayMs)).isNew).toBe(false);
    const second = await ensureOwnCertificate(directory, names, now + 61 * dayMs);
    expect(second).toMatchObject({ isNew: true, caFingerprint: first.caFingerprint });
    expect(second.expiresAt).toBe(now + 151 * dayMs);
  });

  it('is renewed for an address that it lacks, not for one that is gone', async () => {
    await ensureOwnCertificate(directory, names, now);
    const fewer = { ...names, addresses: ['fd00::5'] };
    expect((await ensureOwnCertificate(directory, fewer, now)).isNew).toBe(false);
    const other = { ...names, addresses: ['10.0.0.9'] };
    expect((await ensureOwnCertificate(directory, other, now)).isNew).toBe(true);
    expect((await ensureOwnCertificate(directory, other, now)).isNew).toBe(false);
  });

  it('goes on when the disk is full at renewal, and says so in one sentence', async () => {
    const first = await ensureOwnCertificate(directory, names, now);
    const before = await readFile(join(directory, 'lan', 'certificate.pem'), 'utf8');
    const late = await ensureOwnCertificate(directory, names, now + 70 * dayMs, diskFull);
    expect(late).toMatchObject({ isNew: false, fingerprint: first.fingerprint });
    expect(late.problem).toMatch(
      /could not be written to .*lan: ENOSPC: no space left on device\. The one in use/,
    );
    expect(late.problem).not.toContain('.tmp');
    expect(await readFile(join(directory, 'lan', 'certificate.pem'), 'utf8')).toBe(before);
    expect((await ensureOwnCertificate(directory, names, now + 70 * dayMs)).isNew).toBe(true);
  });

  it('goes on over a disk that is really full', async (context) => {
    const lan = join(directory, 'lan');
    await mkdir(lan, { mode: 0o700 });
    const mount = ['-t', 'tmpfs', '-o', 'size=64k,mode=0700', 'tmpfs', lan];
    const mounted = process.platform === 'linux' && spawnSync('mount', mount).status === 0;
    if (!mounted) return context.skip('a file system cannot be mounted here');
    try {
      const first = await ensureOwnCertificate(directory, names, now);
      const before = await readFile(join(lan, 'certificate.pem'), 'utf8');
      await writeFile(join(lan, 'filler'), Buffer.alloc(64 * 1024)).catch(() => undefined);
      const late = await ensureOwnCertificate(directory, names, now + 70 * dayMs);
      expect(late).toMatchObject({ isNew: false, fingerprint: first.fingerprint });
      expect(late.problem).toContain('ENOSPC');
      expect(await readFile(join(lan, 'certificate.pem'), 'utf8')).toBe(before);
      expect((await readdir(lan)).sort()).toEqual(['authority.pem', 'ca.pem', 'certificate.pem', 'filler']);
      await rm(join(lan, 'filler'));
      expect((await ensureOwnCertificate(directory, names, now + 70 * dayMs)).isNew).toBe(true);
    } finally {
      spawnSync('umount', [lan]);
    }
  });

  it('cannot begin on a full disk, nor go on when it has expired', async () => {
    const refused = { code: 'disk_full', message: expect.stringContaining('ENOSPC') as string };
    await expect(ensureOwnCertificate(directory, names, now, diskFull)).rejects.toMatchObject(refused);
    await ensureOwnCertificate(directory, names, now);
    await expect(ensureOwnCertificate(directory, names, now + 91 * dayMs, diskFull)).rejects.toMatchObject(
      refused,
    );
  });

  it.each(['authority.pem', 'certificate.pem'])('is made again when %s is damaged', async (name) => {
    await ensureOwnCertificate(directory, names, now);
    await writeFile(join(directory, 'lan', name), 'damaged');
    expect((await ensureOwnCertificate(directory, names, now)).isNew).toBe(true);
    expect((await ensureOwnCertificate(directory, names, now)).isNew).toBe(false);
  });
});

describe("the user's own", () => {
  let certificateFile: string;
  let keyFile: string;
  beforeEach(async () => {
    const authority = await createAuthority('home', now);
    const leaf = await createLeaf(authority, names, now);
    certificateFile = join(directory, 'c.pem');
    keyFile = join(directory, 'k.pem');
    await writeFile(certificateFile, leaf.cert);
    await writeFile(keyFile, leaf.key);
  });

  it('is used as it is', async () => {
    expect(await readUserCertificate(certificateFile, keyFile, now)).toMatchObject({
      caFingerprint: null,
      expiresAt: now + 90 * dayMs,
    });
  });

  it('is refused by the setting whose file is at fault', async () => {
    const refused = (field: string, message: RegExp) => ({
      code: 'config_invalid',
      details: { field },
      message: expect.stringMatching(message) as string,
    });
    await expect(readUserCertificate('/nowhere.pem', keyFile, now)).rejects.toMatchObject(
      refused('lan.certificateFile', /ENOENT/),
    );
    await expect(readUserCertificate(keyFile, keyFile, now)).rejects.toMatchObject(
      refused('lan.certificateFile', /no certificate/),
    );
    await expect(readUserCertificate(certificateFile, certificateFile, now)).rejects.toMatchObject(
      refused('lan.keyFile', /no private key/),
    );
    await expect(readUserCertificate(certificateFile, keyFile, now + 91 * dayMs)).rejects.toMatchObject(
      refused('lan.certificateFile', /has expired/),
    );
    const other = await createAuthority('other', now);
    await writeFile(keyFile, other.key);
    await expect(readUserCertificate(certificateFile, keyFile, now)).rejects.toMatchObject(
      refused('lan.keyFile', /does not belong/),
    );
  });
});

it('names: the host, its addresses without loopback and link-local IPv6, and what is allowed', () => {
  const entry = (address: string, family: 'IPv4' | 'IPv6', internal = false) =>
    ({ address, family, internal, netmask: '', mac: '', cidr: null, scopeid: 0 }) as never;
  const interfaces = {
    lo: [entry('127.0.0.1', 'IPv4', true), entry('::1', 'IPv6', true)],
    eth0: [entry('fe80::1', 'IPv6'), entry('FD00::5', 'IPv6'), entry('192.168.1.5', 'IPv4')],
    usb0: [entry('169.254.3.4', 'IPv4')],
  };
  expect(lanNames(['desk.example'], interfaces, 'Desk')).toEqual({
    hosts: ['desk', 'desk.local', 'desk.example'],
    addresses: ['192.168.1.5', '169.254.3.4', 'fd00::5'],
  });
  expect(lanNames([], {}, 'my_desk!')).toEqual({ hosts: [], addresses: [] });
});
