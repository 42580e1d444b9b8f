import { create } from 'zustand';

/**
 * Whether what is on the screen is of now. `connecting`: not heard from the server yet. `live`: the event stream
 * stands. `lost`: it does not since `since`; what is shown is from before.
 */
export type Connection =
  | { readonly phase: 'connecting' }
  | { readonly phase: 'live' }
  | { readonly phase: 'lost'; readonly since: number; readonly why: string };

export const useConnection = create<{ readonly connection: Connection }>(() => ({
  connection: { phase: 'connecting' },
}));

export function setConnection(connection: Connection): void {
  useConnection.setState({ connection });
}

/** What is shown may be out of date. */
export function useIsStale(): boolean {
  return useConnection(({ connection }) => connection.phase === 'lost');
}
