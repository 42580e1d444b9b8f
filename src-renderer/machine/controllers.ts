import type { DiscoveryView } from '#shared/api/self.ts';

/** Controllers of others that announce themselves. */
export function controllersOf(found: DiscoveryView | undefined): DiscoveryView['machines'] {
  return (found?.machines ?? []).filter(({ role, relation }) => role === 'controller' && relation !== 'self');
}
