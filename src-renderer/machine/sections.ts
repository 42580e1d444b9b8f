import type { SettingsView } from '#shared/api/access.ts';
import type { StartJoinBody } from '#shared/api/joining.ts';
import type { DiscoveryView, SelfView } from '#shared/api/self.ts';
import type { DesktopRole } from '#shared/api/shell.ts';
import { button, checkbox, element, paragraph, section } from './dom.ts';

/** All that the page shows. */
export interface Shown {
  readonly self: SelfView;
  readonly settings: SettingsView['settings'];
  readonly role: DesktopRole | null;
  /** null: the first look goes on. */
  readonly found: DiscoveryView | null;
}

/** All that a person can do here. */
export interface Actions {
  readonly chooseRole: (role: DesktopRole) => void;
  readonly askAgain: () => void;
  readonly join: (body: StartJoinBody) => void;
  readonly confirmJoin: () => void;
  readonly cancelJoin: () => void;
  readonly leave: () => void;
  readonly openDashboard: () => void;
  readonly setSettings: (patch: object) => void;
}

const uses: ReadonlyArray<readonly [DesktopRole, string, string]> = [
  [
    'both',
    'Controller, and lend this computer',
    'It leads your covey and works in it. Right for the first one.',
  ],
  ['lend', 'Lend only', 'It works for a covey that another computer leads.'],
  ['controller', "My covey's controller", 'It leads your covey and does no work itself.'],
];

/** The one question of the first start. */
export function questionSection(
  { found, role }: Pick<Shown, 'found' | 'role'>,
  actions: Actions,
): HTMLElement {
  const controllers = foundControllers(found);
  const heard =
    found === null
      ? paragraph('Looking for controllers on your network ...', 'muted')
      : paragraph(
          controllers.length === 0
            ? 'No controller was found on your network.'
            : `Found on your network: ${controllers.map(({ name }) => name).join(', ')}. You probably want to lend this computer to it.`,
          'muted',
        );
  heard.setAttribute('aria-live', 'polite');
  const choices = uses.map(([use, title, text]) => {
    const choice = element(
      'button',
      { type: 'button', className: 'choice', onclick: () => actions.chooseRole(use), disabled: use === role },
      element('strong', { textContent: title + (use === role ? ' (now)' : '') }),
      element('span', { textContent: text }),
    );
    return choice;
  });
  return section('Use this computer for', heard, element('div', { className: 'choices' }, ...choices));
}

/** Whose machine this is, or how it becomes somebody's. */
export function coveySection({ self, found }: Shown, actions: Actions): HTMLElement {
  if (self.role === 'controller') {
    return section(
      'Covey',
      paragraph('This computer is the controller of your covey.'),
      element('div', { className: 'actions' }, button('Open the dashboard', actions.openDashboard, 'main')),
    );
  }
  if (self.membership) return memberSection(self.membership, actions);
  const { join } = self;
  if (join && (join.phase === 'comparing' || join.phase === 'approved' || join.phase === 'connecting')) {
    return joiningSection(join, actions);
  }
  return findSection(self, found, actions);
}

function memberSection(
  { controllerName, connected, addresses, trouble }: NonNullable<SelfView['membership']>,
  actions: Actions,
): HTMLElement {
  const where = addresses[0] ? ` at ${addresses[0].host}:${addresses[0].port}` : '';
  const leave = button('Leave this covey', () => {
    leave.replaceWith(
      element(
        'span',
        { className: 'actions' },
        paragraph('What runs here for the covey ends.'),
        button('Leave now', actions.leave),
      ),
    );
  });
  return section(
    'Covey',
    paragraph(`This computer is lent to ${controllerName}.`),
    connected
      ? paragraph(`Connected${where}.`, 'good')
      : paragraph(trouble?.message ?? `Not connected: trying${where}.`, 'bad'),
    element(
      'div',
      { className: 'actions' },
      button('Open the dashboard', actions.openDashboard, 'main'),
      leave,
    ),
  );
}

function joiningSection(
  { phase, code, controller, confirmed }: NonNullable<SelfView['join']>,
  actions: Actions,
): HTMLElement {
  const whom = controller?.name ?? controller?.address?.host ?? 'the controller';
  const cancel = button('Cancel', actions.cancelJoin);
  if (phase === 'connecting' || code === null) {
    return section('Joining', paragraph(`Connecting to ${whom} ...`), cancel);
  }
  const done = confirmed || phase === 'approved';
  return section(
    'Joining',
    paragraph(`Somebody at ${whom} has to type this number under "Machines" there:`),
    paragraph(`${code.slice(0, 3)} ${code.slice(3)}`, 'code'),
    phase === 'approved' ? paragraph(`It was typed at ${whom}.`, 'good') : null,
    confirmed ? paragraph('You have confirmed. Waiting for the controller.', 'muted') : null,
    element(
      'div',
      { className: 'actions' },
      confirmed ? null : button('The same number was typed there', actions.confirmJoin, done ? 'main' : ''),
      cancel,
    ),
  );
}

function findSection(self: SelfView, found: DiscoveryView | null, actions: Actions): HTMLElement {
  const controllers = foundControllers(found);
  const list = controllers.map(({ nodeId, name, verified }) =>
    element(
      'li',
      { className: 'row' },
      element('span', { textContent: verified ? name : `${name} (does not answer)` }),
      button(`Join ${name}`, () => actions.join({ controller: nodeId }), verified ? 'main' : ''),
    ),
  );
  const input = element('input', { type: 'text', name: 'join', autocomplete: 'off', maxLength: 4_096 });
  const form = element(
    'form',
    {},
    element('label', { className: 'stacked' }, 'Join string, or address of a controller', input),
    element('button', { type: 'submit', textContent: 'Join' }),
  );
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    const text = input.value.trim();
    if (text !== '') actions.join(text.startsWith('covey1.') ? { joinString: text } : { controller: text });
  });
  const nothing =
    found === null
      ? 'Looking for controllers ...'
      : (found.problem ?? 'No controller was found on your network. Is Covey running there?');
  return section(
    'Join a covey',
    self.join?.phase === 'failed' && self.join.error ? paragraph(self.join.error.message, 'bad') : null,
    list.length === 0 ? paragraph(nothing, 'muted') : element('ul', {}, ...list),
    element('div', { className: 'actions' }, button('Look again', actions.askAgain)),
    form,
  );
}

/** The switch, and what holds the machine back. */
export function lendSection({ self, settings }: Shown, actions: Actions): HTMLElement | null {
  if (self.role === 'controller' && self.lend === null) return null;
  const held = settings.lend.enabled ? (self.lend?.heldBackBy ?? []) : [];
  const unavailable = self.lend?.unavailable ?? [];
  return section(
    'Lending',
    checkbox('Lend this computer', settings.lend.enabled, (enabled) =>
      actions.setSettings({ lend: { enabled } }),
    ),
    self.lend?.lending === true ? paragraph('It is lent now.', 'good') : null,
    ...held.map(({ message }) => paragraph(`Held back: ${message}`)),
    ...unavailable.map(({ reason }) => paragraph(`Not available on this system: ${reason}`, 'muted')),
  );
}

export function appSection({ settings }: Shown, actions: Actions): HTMLElement {
  const { openAtLogin, updates } = settings.app;
  const channel = element(
    'select',
    { onchange: () => actions.setSettings({ app: { updates: { channel: channel.value } } }) },
    element('option', { value: 'stable', textContent: 'Stable' }),
    element('option', { value: 'beta', textContent: 'Beta' }),
  );
  channel.value = updates.channel;
  return section(
    'App',
    checkbox('Start Covey when I log in', openAtLogin, (checked) =>
      actions.setSettings({ app: { openAtLogin: checked } }),
    ),
    checkbox('Fetch updates and install them when nothing runs here', updates.automatic, (automatic) =>
      actions.setSettings({ app: { updates: { automatic } } }),
    ),
    element('label', {}, 'Versions', channel),
  );
}

export function noticesSection({ self }: Shown): HTMLElement | null {
  if (self.notices.length === 0) return null;
  return section('Notices', ...self.notices.map(({ message }) => paragraph(message, 'bad')));
}

function foundControllers(found: DiscoveryView | null): DiscoveryView['machines'] {
  return (found?.machines ?? []).filter(({ role, relation }) => role === 'controller' && relation !== 'self');
}
