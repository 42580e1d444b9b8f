import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useEffect } from 'react';
import type { ApiAnswer } from '#shared/api/calls.ts';
import type { DesktopRole, ShellBridge } from '#shared/api/shell.ts';
import type { CoveyError } from '#shared/errors.ts';
import { useRead } from '../queries/queries.ts';

/** All that the page shows; what is undefined has not been told yet. */
export interface Machine {
  readonly self: ApiAnswer<'self'> | undefined;
  readonly settings: ApiAnswer<'settings'> | undefined;
  readonly means: ApiAnswer<'lendMeans'> | undefined;
  readonly found: ApiAnswer<'discovery'> | undefined;
  /** For what a person uses this computer; null: they were not asked yet. Undefined in a browser too. */
  readonly role: DesktopRole | null | undefined;
  /** Why what is shown may be old. */
  readonly error: CoveyError | null;
  readonly lookAgain: () => void;
}

/** This machine has no stream of events: it is asked, while somebody looks. */
const lookEveryMs = 1_500;
/** These take seconds, or ask every sensor. */
const lookCloserEveryMs = 10_000;

export function useMachine(shell: ShellBridge | null): Machine {
  const client = useQueryClient();
  const self = useRead('self');
  const settings = useRead('settings');
  const means = useRead('lendMeans');
  const found = useRead('discovery');
  const role = useQuery({
    queryKey: ['role'],
    queryFn: () => shell?.role() ?? null,
    enabled: shell !== null,
  });
  useEffect(() => {
    const every = (ms: number, keys: readonly string[]) =>
      setInterval(() => {
        if (document.hidden) return;
        // One that goes on is not asked again: a slow answer must not starve.
        for (const key of keys) {
          void client.invalidateQueries({ queryKey: [key] }, { cancelRefetch: false });
        }
      }, ms);
    const timers = [
      every(lookEveryMs, ['self', 'settings', 'role']),
      every(lookCloserEveryMs, ['discovery', 'lendMeans']),
    ];
    return () => timers.forEach(clearInterval);
  }, [client]);
  const connected = self.data?.membership?.connected;
  useEffect(() => {
    // A machine looks at its graphics cards when it becomes a member.
    void client.invalidateQueries({ queryKey: ['lendMeans'] });
  }, [client, connected]);
  return {
    self: self.data,
    settings: settings.data,
    means: means.data,
    found: found.data,
    role: role.data,
    error: self.error ?? settings.error,
    lookAgain: () => void found.refetch(),
  };
}
