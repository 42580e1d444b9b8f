/**
 * Names of what pages may ask the shell for (`ShellBridge`), and nothing else: what the covey is about goes over
 * `/api`. Each call is checked for who asks (`ipc.ts`). Shared by main process and preload.
 */
export const channels = {
  localToken: 'covey:local-token',
  role: 'covey:role',
  chooseRole: 'covey:choose-role',
  open: 'covey:open',
} as const;
