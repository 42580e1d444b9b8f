import type { NodeView, StatusView } from '#shared/api/schema.ts';
import type { SessionView } from '#shared/api/access.ts';
import type { DeploymentView } from '#shared/domain/deployment.ts';
import type { ErrorBody } from '#shared/errors.ts';

/** A refusal of the API, or `unreachable` when there was no answer. */
export class ApiFailure extends Error {
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

export interface Overview {
  readonly status: StatusView;
  readonly nodes: readonly NodeView[];
  readonly deployments: readonly DeploymentView[];
}

const answerMs = 15_000;

/** Uses the code up. */
export function redeem(code: string): Promise<SessionView> {
  return call<SessionView>('POST', '/api/sessions', null, { code });
}

export async function endSession(token: string): Promise<void> {
  await call('DELETE', '/api/sessions/current', token);
}

export async function overview(token: string): Promise<Overview> {
  const [status, { nodes }, { deployments }] = await Promise.all([
    call<StatusView>('GET', '/api/status', token),
    call<{ nodes: NodeView[] }>('GET', '/api/nodes', token),
    call<{ deployments: DeploymentView[] }>('GET', '/api/deployments', token),
  ]);
  return { status, nodes, deployments };
}

async function call<T>(method: string, path: string, token: string | null, body?: object): Promise<T> {
  let response: Response;
  let value: unknown;
  try {
    response = await fetch(path, {
      method,
      headers: {
        ...(token === null ? {} : { authorization: `Bearer ${token}` }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      credentials: 'omit',
      cache: 'no-store',
      signal: AbortSignal.timeout(answerMs),
    });
    value = await response.json();
  } catch {
    throw new ApiFailure('unreachable', 'Covey does not answer. Is it running on this machine?');
  }
  if (response.ok) return value as T;
  const { error } = value as { error: ErrorBody };
  throw new ApiFailure(error.code, error.message);
}
