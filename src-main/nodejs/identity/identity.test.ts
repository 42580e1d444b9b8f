import { X509Certificate } from 'node:crypto';
import { chmod, mkdtemp, readFile, readdir, rm, stat, unlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { CoveyError } from '#shared/errors.ts';
import { createLogger } from '../logging.ts';
import { ensureIdentity } from './identity.ts';
import { nodeIdOfCertificate } from './node-id.ts';

let parent: string;
let directory: string;
const lines: string[] = [];
const options = {
  logger: createLogger({ write: (line) => void lines.push(line) }),
  now: () => Date.UTC(2026, 10, 30, 12),
};

beforeEach(async () => {
  parent = await mkdtemp(join(tmpdir(), 'covey-identity-'));
  directory = join(parent, 'identity');
  lines.length = 0;
});
afterEach(() => rm(parent, { recursive: true, force: true }));

const refusal = async (): Promise<CoveyError> => {
  const error: unknown = await ensureIdentity(directory, options).then(
    () => null,
    (thrown: unknown) => thrown,
  );
  if (error instanceof CoveyError) return error;
  throw new Error(`expected a CoveyError, got ${String(error)}`);
};

describe('ensureIdentity', () => {
  it('makes one key for good, readable by its owner only', async () => {
    const first = await ensureIdentity(directory, options);
    const second = await ensureIdentity(directory, options);
    expect(second).toEqual(first);
    expect(first.nodeId).toMatch(/^[0-9a-f]{64}$/);
    expect(first.createdAt).toBe(Date.UTC(2026, 10, 30, 12));
    expect(await readdir(parent)).toEqual(['identity']);
    expect(lines).toEqual([]);
    if (process.platform !== 'win32') {
      expect((await stat(directory)).mode & 0o777).toBe(0o700);
      expect((await stat(join(directory, 'key.pem'))).mode & 0o777).toBe(0o600);
    }
    const certificate = new X509Certificate(first.certPem);
    expect(certificate.validToDate.getUTCFullYear()).toBe(9999);
    expect(certificate.verify(certificate.publicKey)).toBe(true);
    expect(nodeIdOfCertificate(certificate.raw)).toBe(first.nodeId);
  });

  it('names two machines differently', async () => {
    const here = await ensureIdentity(directory, options);
    const there = await ensureIdentity(join(parent, 'other'), options);
    expect(there.nodeId).not.toBe(here.nodeId);
  });

  it.each([
    ['key.pem', 'nonsense', 'not a private key'],
    ['cert.pem', 'nonsense', 'not a certificate'],
    ['key.pem', '', 'not a private key'],
  ])('never replaces a damaged %s', async (name, content, fault) => {
    await ensureIdentity(directory, options);
    await writeFile(join(directory, name), content);
    const error = await refusal();
    expect(error.code).toBe('data_directory_unusable');
    expect(error.message).toContain(join(directory, name));
    expect(error.message).toContain(fault);
    expect(await readFile(join(directory, name), 'utf8')).toBe(content);
  });

  it.each(['key.pem', 'cert.pem'])('says that %s is missing', async (name) => {
    await ensureIdentity(directory, options);
    await unlink(join(directory, name));
    expect((await refusal()).message).toContain(`${name} is missing`);
  });

  it('refuses a certificate of another key', async () => {
    await ensureIdentity(directory, options);
    const other = await ensureIdentity(join(parent, 'other'), options);
    await writeFile(join(directory, 'cert.pem'), other.certPem);
    expect((await refusal()).message).toContain('does not belong to key.pem');
  });

  it.skipIf(process.platform === 'win32')('closes files that others could read and says so', async () => {
    await ensureIdentity(directory, options);
    await chmod(join(directory, 'key.pem'), 0o644);
    await ensureIdentity(directory, options);
    expect((await stat(join(directory, 'key.pem'))).mode & 0o777).toBe(0o600);
    expect(lines.join('')).toContain('key.pem');
  });
});
