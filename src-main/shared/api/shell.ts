/** What the desktop app offers to its pages beside `/api`: about the app itself, nothing about the covey. */

/** What a person uses this computer for; null until they were asked. */
export type DesktopRole = 'controller' | 'lend' | 'both';
export type ShellPlace = 'dashboard' | 'machine';

/** `window.coveyShell`; absent in a browser. */
export interface ShellBridge {
  readonly version: string;
  /** The right to this machine's own routes; for the page "This computer" only. */
  localToken(): Promise<string>;
  role(): Promise<DesktopRole | null>;
  /** Resolves once the new role runs; then the window goes on by itself. Rejects with a sentence. */
  chooseRole(role: DesktopRole): Promise<void>;
  open(place: ShellPlace): Promise<void>;
}
