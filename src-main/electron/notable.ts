import type { ApiEvent } from '#shared/api/schema.ts';

export interface Notice {
  readonly title: string;
  readonly body: string;
}

const titles: Readonly<Record<string, string>> = {
  'audit-join-requested': 'A machine asks to join',
  'node-lost': 'A machine is lost',
  'replica-ready': 'A model is ready',
  'security-identity-duplicate': 'Two machines with one identity',
};

/**
 * Which events of a controller are worth a person's attention away from the window: someone asks to join, a machine
 * is lost, a load is done or has failed for good. Null for all others.
 */
export function notable({ kind, level, message }: ApiEvent): Notice | null {
  const title = kind === 'replica-failed' && level === 'error' ? 'A model could not be loaded' : titles[kind];
  return title === undefined ? null : { title, body: message.slice(0, 240) };
}
