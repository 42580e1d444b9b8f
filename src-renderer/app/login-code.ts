import { useCallback, useEffect, useState } from 'react';
import { CoveyError } from '#shared/errors.ts';
import type { ApiClient } from '../api-client/api-client.ts';
import { toastError } from '../components/toasts.tsx';
import { beginSession, takeLoginCode, useSession } from '../stores/session.ts';

export interface Login {
  readonly busy: boolean;
  /** What was wrong with the last code. */
  readonly error: string | null;
  readonly logIn: (code: string) => Promise<void>;
}

/** Exchanges codes, once each, for logins: those typed, and those of links that lead here, now or later. */
export function useLogin(api: ApiClient): Login {
  const [busy, setBusy] = useState(false);
  const [wrong, setWrong] = useState<string | null>(null);
  const logIn = useCallback(
    async (code: string): Promise<void> => {
      setBusy(true);
      setWrong(null);
      try {
        beginSession((await api.call('redeem', { body: { code } })).token);
      } catch (error) {
        const failure = CoveyError.from(error);
        // Who is logged in stays so: a bad link costs nothing.
        if (useSession.getState().token === null) setWrong(failure.message);
        else toastError('The link did not log you in', failure);
      } finally {
        setBusy(false);
      }
    },
    [api],
  );
  useEffect(() => {
    const take = (): void => {
      const code = takeLoginCode();
      if (code !== null) void logIn(code);
    };
    take();
    addEventListener('hashchange', take);
    return () => removeEventListener('hashchange', take);
  }, [logIn]);
  return { busy, error: wrong, logIn };
}
