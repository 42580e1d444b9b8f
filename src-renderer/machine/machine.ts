import type { DiscoveryView } from '#shared/api/self.ts';
import type { ShellBridge } from '#shared/api/shell.ts';
import { element, paragraph, section } from './dom.ts';
import { localApi, type LocalApi } from './local-api.ts';
import {
  appSection,
  coveySection,
  lendSection,
  noticesSection,
  questionSection,
  type Actions,
  type Shown,
} from './sections.ts';

/** The page of this machine itself. It needs no controller: everything here is answered on this computer. */
const lookEveryMs = 1_500;
const discoverEveryMs = 10_000;

const shell = (window as { coveyShell?: ShellBridge }).coveyShell;
const place = document.querySelector('#sections') as HTMLElement;
const message = document.querySelector('#message') as HTMLElement;

/** Each part of the page is made again only when what it shows has changed: what is typed stays. */
const drawn = new Map<string, string>();

function draw(name: string, state: unknown, make: () => HTMLElement | null): void {
  const key = JSON.stringify(state);
  if (drawn.get(name) === key) return;
  drawn.set(name, key);
  const old = place.querySelector(`:scope > [data-name="${name}"]`);
  const made = element('div', {}, make());
  made.dataset['name'] = name;
  if (old) old.replaceWith(made);
  else place.append(made);
}

function say(text: string | null): void {
  message.textContent = text ?? '';
  message.hidden = text === null;
}

async function run(bridge: ShellBridge): Promise<void> {
  const api: LocalApi = localApi(await bridge.localToken());
  let found: DiscoveryView | null = null;
  let discovering = false;

  const discover = async (): Promise<void> => {
    if (discovering) return;
    discovering = true;
    try {
      found = await api.discovery();
      await look();
    } finally {
      discovering = false;
    }
  };
  const act = (work: () => Promise<unknown>): void => {
    say(null);
    work()
      .then(look)
      .catch((error: unknown) => {
        // Electron puts its own words before those of the main process.
        const text = error instanceof Error ? error.message : String(error);
        say(text.replace(/^Error invoking remote method '[^']*': (Error: )?/, ''));
      });
  };
  const actions: Actions = {
    chooseRole: (role) => act(() => bridge.chooseRole(role)),
    askAgain: () => act(discover),
    join: (body) => act(() => api.join(body)),
    confirmJoin: () => act(() => api.confirmJoin()),
    cancelJoin: () => act(() => api.cancelJoin()),
    leave: () => act(() => api.leave()),
    openDashboard: () => act(() => bridge.open('dashboard')),
    setSettings: (patch) => act(() => api.setSettings(patch)),
  };
  async function look(): Promise<void> {
    const [self, { settings }, role] = await Promise.all([api.self(), api.settings(), bridge.role()]);
    const shown: Shown = { self, settings, role, found };
    (document.querySelector('#name') as HTMLElement).textContent = `${self.name} - Covey ${self.version}`;
    draw('question', role === null ? [found] : null, () =>
      role === null ? questionSection(shown, actions) : null,
    );
    draw('notices', self.notices, () => noticesSection(shown));
    const machines = self.membership || self.role === 'controller' ? null : found;
    draw('covey', role && [self.role, self.membership, self.join, machines], () =>
      role === null ? null : coveySection(shown, actions),
    );
    draw('lend', role && [self.lend, settings.lend.enabled, role], () =>
      role === null || role === 'controller' ? null : lendSection(shown, actions),
    );
    draw('app', role && settings.app, () => (role === null ? null : appSection(shown, actions)));
    draw('change', role, () => {
      if (role === null) return null;
      const question = questionSection({ found, role }, actions);
      return element(
        'details',
        {},
        element('summary', { textContent: 'Use it for something else' }),
        question,
      );
    });
  }
  const every = (ms: number, work: () => Promise<void>): void => {
    setInterval(() => {
      if (document.hidden) return;
      work().then(
        () => (message.dataset['from'] === 'look' ? say(null) : undefined),
        (error: unknown) => {
          message.dataset['from'] = 'look';
          say(error instanceof Error ? error.message : String(error));
        },
      );
    }, ms);
  };
  await look();
  void discover().catch(() => undefined);
  every(lookEveryMs, look);
  every(discoverEveryMs, discover);
}

if (shell) {
  run(shell).catch((error: unknown) => say(error instanceof Error ? error.message : String(error)));
} else {
  place.append(
    section(
      'Open it in the app',
      paragraph(
        'This page is for the person at this computer: open it in the Covey app, or use "covey status", "covey lend" and "covey join" in a terminal.',
      ),
    ),
  );
}
