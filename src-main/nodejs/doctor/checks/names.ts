import { isIP } from 'node:net';
import { clause, type Finding } from '../check.ts';
import type { DoctorContext } from '../context.ts';
import type { DoctorSystem } from '../system.ts';

/**
 * 1. `localhost` must be this machine: apps find the API by that name. 2. A controller that is known by name must
 * resolve. 3. Our own name should lead to us, or others that were told it go astray.
 */
export async function checkNames(context: DoctorContext, system: DoctorSystem): Promise<Finding> {
  const hosts = system.platform === 'win32' ? 'C:\\Windows\\System32\\drivers\\etc\\hosts' : '/etc/hosts';
  const local = await resolve('localhost', system);
  if (!local.ok || local.addresses.some((address) => !isLoopback(address))) {
    const got = local.ok ? `leads to ${local.addresses.join(', ')}` : `does not resolve (${local.reason})`;
    return {
      status: 'fail',
      summary: `The name "localhost" ${got}, so apps do not find the API`,
      action: `Add the line "127.0.0.1 localhost" to ${hosts}`,
    };
  }
  for (const { host } of context.node?.controller?.addresses ?? []) {
    if (isIP(host) !== 0) continue;
    const found = await resolve(host, system);
    if (!found.ok) {
      return {
        status: 'warn',
        summary: `The controller's name "${host}" does not resolve (${found.reason})`,
        action: 'Join by its address instead, or give it a name in the router',
      };
    }
  }
  const name = system.hostname();
  const own = await resolve(name, system);
  if (!own.ok) {
    return {
      status: 'warn',
      summary: `This machine's name "${name}" does not resolve (${own.reason}), so others reach it by address only`,
      action: `Add the line "127.0.1.1 ${name}" to ${hosts}`,
    };
  }
  const ours = new Set(system.addresses().map(({ address }) => address));
  const stray = own.addresses.find((address) => !isLoopback(address) && !ours.has(withoutZone(address)));
  if (stray !== undefined) {
    return {
      status: 'warn',
      summary: `This machine's name "${name}" leads to ${stray}, which is no address of it`,
      action: `Correct the entry of ${name} in ${hosts} or in the router, or use addresses`,
    };
  }
  return { status: 'ok', summary: `The names "localhost" and "${name}" lead to this machine` };
}

type Resolved =
  { readonly ok: true; readonly addresses: string[] } | { readonly ok: false; readonly reason: string };

async function resolve(name: string, system: DoctorSystem): Promise<Resolved> {
  try {
    return { ok: true, addresses: await system.resolve(name) };
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    return { ok: false, reason: clause(code ?? message) };
  }
}

function isLoopback(address: string): boolean {
  return address === '::1' || address.startsWith('127.');
}

function withoutZone(address: string): string {
  return address.replace(/%.*$/, '');
}
