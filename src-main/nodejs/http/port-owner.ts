import { CoveyError } from '#shared/errors.ts';
import { portUses, portUserText } from '../port-users.ts';

/** Who listens on a local TCP port: `"name" (pid 123)`, null when it cannot be known. */
export async function portOwner(port: number): Promise<string | null> {
  const [use] = await portUses([{ protocol: 'tcp', port }]);
  const user = use?.known ? use.users.find(({ name }) => name !== null) : undefined;
  return user === undefined ? null : portUserText(user);
}

/** The error for a port that cannot be had; names its owner where that is known. */
export async function portInUse(
  host: string,
  port: number,
  advice: string,
  field = 'port',
): Promise<CoveyError> {
  const owner = await portOwner(port);
  const by = owner === null ? 'by another program' : `by ${owner}`;
  return new CoveyError('port_in_use', `Port ${port} on ${host} is in use ${by}. ${advice}`, { field });
}
