import type { NodeId } from '#shared/lib/ids.ts';
import { CoveyError } from '#shared/errors.ts';
import type { ControllerState, NodeRecord } from '../state/state.ts';

/**
 * The node that a person means: its name, its whole id, or a prefix of the id of at least 6 digits.
 * Throws `node_not_found` naming those that exist, or `node_ambiguous`.
 * @param field the input at fault, for the error
 */
export function findNode(state: ControllerState, ref: string, field: string): NodeRecord {
  const nodes = [...state.nodes.values()];
  const named = nodes.find((node) => node.durable.name === ref) ?? state.nodes.get(ref as NodeId);
  if (named) return named;
  const matching = /^[0-9a-f]{6,64}$/.test(ref)
    ? nodes.filter((node) => node.durable.id.startsWith(ref))
    : [];
  const [only] = matching;
  if (only && matching.length === 1) return only;
  if (matching.length > 1) {
    throw new CoveyError('node_ambiguous', `"${ref}" fits ${matching.length} machines; give more digits.`, {
      field,
    });
  }
  const known = nodes.map((node) => node.durable.name).join(', ');
  throw new CoveyError(
    'node_not_found',
    known
      ? `There is no machine "${ref}". There are: ${known}.`
      : `There is no machine "${ref}": none has joined yet.`,
    { field },
  );
}
