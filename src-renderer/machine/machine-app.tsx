import { useEffect } from 'react';
import type { ShellBridge } from '#shared/api/shell.ts';
import { AppFrame, type AppFrameProps } from '../app/app-frame.tsx';
import { LoadingState } from '../components/states.tsx';
import { toastError } from '../components/toasts.tsx';
import { MachinePage } from './machine-page.tsx';
import { beginMachineSession, useMachineSession } from './machine-session.ts';
import { shellError } from './shell-error.ts';
import { SignIn } from './sign-in.tsx';

export interface MachineAppProps extends AppFrameProps {
  /** null: a browser. */
  readonly shell: ShellBridge | null;
}

/** This computer's own page. It needs no controller: everything here is answered on this computer. */
export function MachineApp({ api, queries, nonce, shell }: MachineAppProps) {
  const token = useMachineSession((session) => session.token);
  useEffect(() => {
    if (token !== null || shell === null) return;
    shell.localToken().then(
      (given) => beginMachineSession(given, false),
      (error: unknown) => toastError('The app does not let this page in', shellError(error)),
    );
  }, [shell, token]);
  useEffect(() => () => queries.clear(), [queries, token]);
  return (
    <AppFrame api={api} queries={queries} nonce={nonce}>
      {token !== null ? (
        <MachinePage shell={shell} />
      ) : shell === null ? (
        <SignIn />
      ) : (
        <LoadingState what="this computer" />
      )}
    </AppFrame>
  );
}
