import { afterEach, onTestFailed } from 'vitest';
import { createApiClient, type ApiClient } from '../../src-main/cli/api-client.ts';
import { readApiAccess } from '../../src-main/nodejs/access/local-access.ts';
import { startDesktop, type Desktop, type DesktopOptions } from './desktop.ts';

/** For the tests of one file: apps that end with the test; what they said is printed when it fails. */
export function useDesktop(): {
  readonly start: (options?: DesktopOptions) => Desktop;
  /** Of this machine's owner; closed with the test. */
  readonly clientOf: (desktop: Desktop) => ApiClient;
} {
  const open: Desktop[] = [];
  const clients: ApiClient[] = [];
  afterEach(async () => {
    for (const client of clients.splice(0)) client.close();
    for (const desktop of open.splice(0)) await desktop.close();
  });
  return {
    start(options = {}) {
      const desktop = startDesktop(options);
      open.push(desktop);
      onTestFailed(() => console.error(desktop.output().slice(-6_000)));
      return desktop;
    },
    clientOf(desktop) {
      const access = readApiAccess(desktop.data);
      if (!access?.apiAddress) throw new Error('the app serves no API');
      const client = createApiClient(access.apiAddress, { token: access.token });
      clients.push(client);
      return client;
    },
  };
}

/** The first start, answered. */
export async function choose(desktop: Desktop, choice: RegExp): Promise<void> {
  const page = await desktop.page();
  await page.getByRole('button', { name: choice }).click();
}

/** The first start answered with a controller's role: resolves when the dashboard is in the window. */
export async function becomeController(desktop: Desktop, lend: boolean): Promise<void> {
  await choose(desktop, lend ? /^Controller, and lend/ : /^My covey's controller/);
  await desktop.until('the dashboard', ({ windows: [window] }) => /:\d+\/(#|$)/.test(window?.url ?? ''));
}
