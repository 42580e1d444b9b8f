import type { SelfView } from '#shared/api/self.ts';
import type { Serving } from '../roles/role-node.ts';

/** What the tray shows: one of three pictures, a line of text, and the lend switch. */
export interface TrayState {
  readonly picture: 'idle' | 'serving' | 'attention';
  readonly line: string;
  /** null: this machine does not lend itself, so there is nothing to switch. */
  readonly lend: { readonly enabled: boolean; readonly line: string } | null;
}

/**
 * Pure. In this order: 1. what needs a person, 2. what is served, 3. what the machine waits for.
 * @param asking machines that ask to join this controller
 * @param lendEnabled the switch in the settings of this machine; null when it lends nothing
 */
export function trayState(options: {
  readonly self: SelfView;
  readonly serving: Serving;
  readonly asking: number;
  readonly lendEnabled: boolean | null;
}): TrayState {
  const { self, serving, asking, lendEnabled } = options;
  return { ...pictureAndLine(self, serving, asking), lend: lendLine(self, lendEnabled) };
}

function pictureAndLine(
  { role, membership, join, notices }: SelfView,
  { models, engines }: Serving,
  asking: number,
): Pick<TrayState, 'picture' | 'line'> {
  // 1.
  if (asking > 0) {
    const who = asking === 1 ? 'A machine asks' : `${asking} machines ask`;
    return { picture: 'attention', line: `${who} to join` };
  }
  if (join?.phase === 'comparing' && join.code !== null) {
    return { picture: 'attention', line: `Joining: compare the number ${join.code}` };
  }
  if (notices[0]) return { picture: 'attention', line: short(notices[0].message) };
  if (membership && !membership.connected) {
    return { picture: 'attention', line: `Not connected to ${membership.controllerName}` };
  }
  // 2.
  if (models.length === 1) return { picture: 'serving', line: `Serving ${models[0]}` };
  if (models.length > 1) return { picture: 'serving', line: `Serving ${models.length} models` };
  if (engines > 0)
    return { picture: 'serving', line: `Working for ${membership?.controllerName ?? 'the covey'}` };
  // 3.
  if (role === 'controller') return { picture: 'idle', line: 'Controller, no model loaded' };
  if (membership) return { picture: 'idle', line: `Ready for ${membership.controllerName}` };
  return { picture: 'idle', line: 'Belongs to no covey yet' };
}

function lendLine({ lend }: SelfView, enabled: boolean | null): TrayState['lend'] {
  if (enabled === null) return null;
  const heldBack = enabled ? lend?.heldBackBy[0] : undefined;
  return { enabled, line: heldBack ? `Lent later: ${short(heldBack.message)}` : 'Lend this machine' };
}

function short(text: string): string {
  return text.length <= 60 ? text : `${text.slice(0, 59).trimEnd()}…`;
}
