import { create } from 'zustand';

/**
 * The right to this machine's own routes, nothing to do with a login at the controller. In the app it comes from
 * the shell and is kept nowhere; in a browser it ends with the tab.
 */
const storageKey = 'covey.machine';

interface MachineSession {
  /** null: the page may not ask anything yet. */
  readonly token: string | null;
  /** Why the person has to sign in again, one sentence. */
  readonly notice: string | null;
}

export const useMachineSession = create<MachineSession>(() => ({
  token: sessionStorage.getItem(storageKey),
  notice: null,
}));

export function beginMachineSession(token: string, kept: boolean): void {
  if (kept) sessionStorage.setItem(storageKey, token);
  useMachineSession.setState({ token, notice: null });
}

/** @param token only if this is still the one; another may have begun meanwhile */
export function endMachineSession(token: string): void {
  if (useMachineSession.getState().token !== token) return;
  sessionStorage.removeItem(storageKey);
  useMachineSession.setState({ token: null, notice: 'Your login has ended.' });
}
