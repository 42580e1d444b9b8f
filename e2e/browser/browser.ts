import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { chromium, type BrowserContext } from 'playwright-core';

const places = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];
const found = places.find((place) => existsSync(place));

/** Why there is no browser here, null when there is one. */
export const noBrowser: string | null = found === undefined ? 'no Chromium is installed' : null;

/** A browser with a profile of its own, which `close` removes. `names` resolve to this machine. */
export async function openBrowser(
  names: readonly string[] = [],
): Promise<{ context: BrowserContext; close: () => Promise<void> }> {
  const profile = mkdtempSync(path.join(os.tmpdir(), 'covey-browser-'));
  const context = await chromium.launchPersistentContext(profile, {
    executablePath: found ?? '',
    headless: true,
    timeout: 60_000,
    // Root has no other sandbox here; pages are our own.
    chromiumSandbox: false,
    args: [
      '--disable-gpu',
      '--no-first-run',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
      ...(names.length === 0
        ? []
        : [`--host-resolver-rules=${names.map((name) => `MAP ${name} 127.0.0.1`).join(',')}`]),
    ],
  });
  context.setDefaultTimeout(20_000);
  return {
    context,
    async close() {
      await context.close();
      rmSync(profile, { recursive: true, force: true });
    },
  };
}

/** A site of somebody else's: one answer, whatever is asked. */
export async function startSite(
  page: string,
  headers: Readonly<Record<string, string>> = { 'content-type': 'text/html; charset=utf-8' },
): Promise<{ port: number; close: () => Promise<void> }> {
  const server = createServer((_request, response) => {
    response.writeHead(200, headers).end(page);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    port: (server.address() as AddressInfo).port,
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
