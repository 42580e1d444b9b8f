import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { anonymous } from '../http/http-call.ts';
import { startHttpServer, type HttpServer } from '../http/http-server.ts';
import { recordingLogger } from '../http/fixtures.ts';
import { dashboardPage, machinePage } from './dashboard-page.ts';

let directory: string;
let server: HttpServer;
let base: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'covey-dashboard-'));
  await mkdir(join(directory, 'assets'));
  await writeFile(join(directory, 'index.html'), '<meta nonce="__STYLE_NONCE__"><p>hello');
  await mkdir(join(directory, 'machine'));
  await writeFile(join(directory, 'machine', 'index.html'), '<meta nonce="__STYLE_NONCE__"><p>mine');
  await writeFile(join(directory, 'assets', 'index-abc.js'), 'plain();');
  await writeFile(join(directory, 'assets', 'index-abc.js.gz'), gzipSync('packed();'));
  await writeFile(join(directory, 'secret.txt'), 'no');
  server = await startHttpServer({
    listen: { loopback: { host: '127.0.0.1', port: 0 } },
    groups: [dashboardPage(directory), machinePage(directory)],
    authenticate: () => anonymous,
    allowedHosts: () => [],
    logger: recordingLogger(),
  });
  base = `http://127.0.0.1:${server.port}`;
});
afterEach(async () => {
  await server.close();
  await rm(directory, { recursive: true });
});

it('puts a nonce of its own into every page and its policy', async () => {
  const seen = new Set<string>();
  for (const path of ['/', '/machine', '/']) {
    const answer = await fetch(base + path);
    const nonce = /nonce="([\w+/]{22}==)"/.exec(await answer.text())?.[1] ?? '';
    expect(answer.headers.get('content-security-policy')).toContain(`'nonce-${nonce}'`);
    expect(answer.headers.get('content-security-policy')).not.toMatch(/script-src[^;]*(unsafe|nonce)/);
    seen.add(nonce);
  }
  expect(seen.size).toBe(3);
});

it('gives scripts compressed to who can read that, and to be kept', async () => {
  const packed = await fetch(`${base}/dashboard/assets/index-abc.js`, {
    headers: { 'accept-encoding': 'gzip' },
  });
  expect(await packed.text()).toBe('packed();');
  expect(packed.headers.get('cache-control')).toBe('public, max-age=31536000, immutable');
  const plain = await fetch(`${base}/dashboard/assets/index-abc.js`, {
    headers: { 'accept-encoding': 'identity' },
  });
  expect(await plain.text()).toBe('plain();');
  expect(plain.headers.get('content-type')).toBe('text/javascript; charset=utf-8');
});

it.each([
  '/dashboard/secret.txt',
  '/dashboard/assets/missing.js',
  '/dashboard/assets/..%2Findex-abc.js',
  '/dashboard/assets/%2e%2e%2fsecret.txt',
  '/dashboard/.stamp',
  '/dashboard/assets/a%00.js',
  '/dashboard/assets',
])('%s is not there', async (path) => {
  const answer = await fetch(base + path);
  expect(answer.status).toBe(404);
  expect(await answer.json()).toMatchObject({ error: { code: 'route_not_found' } });
});

it('answers a browser that asks for an unknown address with a page, and programs as ever', async () => {
  const accept = 'text/html,application/xhtml+xml,*/*;q=0.8';
  const page = await fetch(`${base}/nonsense<b>`, { headers: { accept } });
  expect(page.status).toBe(404);
  expect(page.headers.get('content-type')).toContain('text/html');
  const text = await page.text();
  expect(text).toContain('href="/"');
  expect(text).not.toContain('nonsense');
  const json = await fetch(`${base}/nonsense`);
  expect(json.status).toBe(404);
  expect(await json.json()).toMatchObject({ error: { code: 'route_not_found' } });
});

it('says how to build what was not built', async () => {
  await rm(join(directory, 'index.html'));
  const answer = await fetch(base);
  expect(answer.status).toBe(404);
  expect(await answer.text()).toContain('npm run build');
});
