import { join } from 'node:path';
import { clause, type Finding } from '../check.ts';
import type { DoctorContext } from '../context.ts';
import type { DoctorSystem } from '../system.ts';

/** For a key that two machines use. */
export const copyAction = 'On the machine that is the copy, stop Covey and run "covey identity new"';

/** What this node was told about its own key, and whether the key is there. */
export async function checkIdentity(context: DoctorContext, system: DoctorSystem): Promise<Finding> {
  const notices = [...(context.node?.notices ?? [])];
  // A copy that is refused for being one hears of it in no other way.
  const trouble = context.node?.controller?.trouble;
  if (trouble?.code === 'identity_in_use') notices.push(trouble);
  const copied = notices.find(({ code }) => code === 'identity_in_use');
  if (copied) {
    return {
      status: 'fail',
      summary: `Another machine uses the key of this one: ${clause(copied.message)}`,
      action: copyAction,
    };
  }
  const [notice] = notices;
  if (notice) {
    const more = notices.length > 1 ? ` (and ${notices.length - 1} more)` : '';
    return {
      status: 'warn',
      summary: `${clause(notice.message)}${more}`,
      action: 'See "covey status" and "covey events" for when it happened',
    };
  }
  const directory = join(context.dataDirectory, 'identity');
  const [key, certificate] = await Promise.all(
    ['key.pem', 'cert.pem'].map((name) => system.look(join(directory, name)).catch(() => null)),
  );
  if (!key && !certificate) {
    return context.node === null
      ? { status: 'skipped', summary: `There is no key in ${directory} yet: no node ran here` }
      : {
          status: 'fail',
          summary: `The key in ${directory} was removed while this node runs: it is another machine after its next start`,
          action: 'Put it back from a backup before Covey ends ("covey restore FILE")',
        };
  }
  if (!key || !certificate) {
    return {
      status: 'fail',
      summary: `${join(directory, key ? 'cert.pem' : 'key.pem')} is missing`,
      action: 'Put it back from a backup, or make a new key with "covey identity new" and join again',
    };
  }
  return {
    status: 'ok',
    summary: 'The key of this machine is in place, and nobody else uses it as far as is known',
  };
}
