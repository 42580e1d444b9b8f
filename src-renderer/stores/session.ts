import { create } from 'zustand';

/**
 * The login. It is kept in `sessionStorage`: it ends with the tab, and no other site and no other tab gets it.
 */
const storageKey = 'covey.session';

interface SessionState {
  /** null: nobody is logged in. */
  readonly token: string | null;
  /** Why the person sees the login page, one sentence. */
  readonly notice: string | null;
}

export const useSession = create<SessionState>(() => ({
  token: sessionStorage.getItem(storageKey),
  notice: null,
}));

export function beginSession(token: string): void {
  sessionStorage.setItem(storageKey, token);
  useSession.setState({ token, notice: null });
}

/** @param token only if this is still the login; another may have begun meanwhile */
export function endSession(notice: string, token: string | null = useSession.getState().token): void {
  if (useSession.getState().token !== token) return;
  sessionStorage.removeItem(storageKey);
  useSession.setState({ token: null, notice });
}

/**
 * The code of a one-time link. It is in the fragment, which no server sees, and is taken out of the address bar
 * and the history at once.
 */
export function takeLoginCode(): string | null {
  const code = /^#code=([\w-]{1,64})$/.exec(location.hash)?.[1] ?? null;
  if (code !== null) history.replaceState(null, '', location.pathname);
  return code;
}
