import type { NodeId } from '#shared/lib/ids.ts';
import type { LoadBody } from '#shared/api/schema.ts';
import type { DeploymentRequest } from '#shared/domain/deployment.ts';
import { CoveyError, type ErrorCode } from '#shared/errors.ts';
import type { Clock } from '#shared/lib/clock.ts';
import type { ResolvedModel } from '#shared/protocol/requests.ts';
import type { Runtime } from '../runtime/runtime.ts';
import type { Policy } from '../scheduler/policy.ts';
import { findNode } from '../service/node-refs.ts';
import type { SessionRegistry } from '../sessions/session-registry.ts';
import type { ControllerState, DeploymentRecord, ModelFile, NodeRecord } from '../state/state.ts';

const resolveMs = 15_000;

export interface LoadContext {
  readonly runtime: Runtime;
  readonly sessions: SessionRegistry;
  readonly clock: Clock;
  readonly policy: Policy;
}

/** A load that was asked for, understood and found: what a placement is planned from. */
export interface WantedLoad {
  /** For `/v1`. */
  readonly name: string;
  readonly info: ResolvedModel['info'];
  readonly files: ReadonlyMap<NodeId, ModelFile>;
  readonly request: DeploymentRequest;
}

/**
 * 1. Names become nodes; shares are checked.
 * 2. The machines are asked for the file (only the leader, if one was named).
 */
export async function prepareLoad(
  context: LoadContext,
  body: LoadBody,
  signal: AbortSignal,
): Promise<WantedLoad> {
  // 1.
  const request = readRequest(context.runtime.state, body);
  // 2.
  const { path, info, files } = await findModel(context, request, signal);
  // A library name is what people call the model, whatever its file is called.
  const name = body.name ?? modelName(/[/\\]/.test(body.model) ? path : body.model);
  return { name, info, files, request };
}

export type NameConflict =
  /** Loaded with equal arguments. */
  | { readonly kind: 'same'; readonly deployment: DeploymentRecord }
  | { readonly kind: 'other'; readonly error: CoveyError };

/** What has the name of a load already; null: nothing. */
export function nameConflict(
  state: ControllerState,
  { name, request, info }: WantedLoad,
): NameConflict | null {
  const existing = [...state.deployments.values()].find((other) => other.model === name);
  if (!existing) return null;
  if (!existing.wanted) {
    const message = `${name} is still being unloaded. Try again in a moment.`;
    return {
      kind: 'other',
      error: new CoveyError('model_in_use', message, { field: 'model', retryAfterS: 2 }),
    };
  }
  if (sameRequest(existing.request, request) && existing.info.fileBytes === info.fileBytes) {
    return { kind: 'same', deployment: existing };
  }
  const message = `${name} is loaded already as ${existing.id} with other settings. Unload it first, or load it under another name.`;
  return { kind: 'other', error: new CoveyError('already_loaded', message, { field: 'model' }) };
}

function readRequest(state: ControllerState, body: LoadBody): DeploymentRequest {
  const nodes = body.nodes?.map((ref) => findNode(state, ref, 'nodes').durable.id) ?? null;
  if (nodes && new Set(nodes).size !== nodes.length) {
    throw new CoveyError('invalid_request', 'The list of machines names one of them twice.', {
      field: 'nodes',
    });
  }
  let weights: Record<NodeId, number> | null = null;
  if (body.split) {
    weights = {};
    for (const [ref, weight] of Object.entries(body.split)) {
      const node = findNode(state, ref, 'split');
      if (!Number.isFinite(weight) || weight <= 0) {
        throw new CoveyError(
          'invalid_request',
          `The share of ${node.durable.name} is ${weight}; a share must be more than 0. Leave a machine out to give it nothing.`,
          { field: 'split' },
        );
      }
      if (Object.hasOwn(weights, node.durable.id)) {
        throw new CoveyError('invalid_request', `The shares name ${node.durable.name} twice.`, {
          field: 'split',
        });
      }
      weights[node.durable.id] = weight;
    }
    if (Object.keys(weights).length === 0) {
      throw new CoveyError('invalid_request', 'The list of shares is empty.', { field: 'split' });
    }
    const outside = nodes && Object.keys(weights).find((id) => !nodes.includes(id as NodeId));
    if (outside) {
      const name = state.nodes.get(outside as NodeId)?.durable.name ?? outside;
      throw new CoveyError('invalid_request', `${name} has a share but is not in the list of machines.`, {
        field: 'split',
      });
    }
  }
  return {
    model: body.model,
    nodes,
    weights,
    leader: body.leader === undefined ? null : findNode(state, body.leader, 'leader').durable.id,
    contextPerRequest: body.contextPerRequest ?? null,
    parallel: body.parallel ?? null,
  };
}

interface FoundModel {
  readonly path: string;
  readonly info: ResolvedModel['info'];
  readonly files: ReadonlyMap<NodeId, { path: string; hash: string }>;
}

/** Asks the machines that may lead for the file. A damaged file beats "not found": it is what the person meant. */
async function findModel(
  context: LoadContext,
  request: DeploymentRequest,
  signal: AbortSignal,
): Promise<FoundModel> {
  const { runtime, sessions } = context;
  const asked = candidates(runtime.state, request);
  if (asked.length === 0) {
    const named = request.leader ?? request.nodes?.[0];
    throw named
      ? new CoveyError(
          'node_not_ready',
          `${runtime.state.nodes.get(named)?.durable.name ?? named} is not connected.`,
          { field: 'nodes' },
        )
      : new CoveyError(
          'no_nodes',
          'No machine is connected. Add one with "covey invite", or start its worker.',
        );
  }
  const answers = await Promise.allSettled(
    asked.map((node) =>
      sessions.request(
        node.durable.id,
        'model.resolve',
        { model: request.model },
        { deadlineMs: resolveMs, signal },
      ),
    ),
  );
  const files = new Map<NodeId, { path: string; hash: string }>();
  const errors: CoveyError[] = [];
  let first: ResolvedModel | null = null;
  answers.forEach((answer, index) => {
    const node = asked[index];
    if (!node) return;
    if (answer.status === 'rejected') {
      errors.push(CoveyError.from(answer.reason));
      return;
    }
    first ??= answer.value;
    // Two machines may have different files under one name: only equal ones count as copies.
    if (answer.value.hash === first.hash) {
      files.set(node.durable.id, { path: answer.value.path, hash: answer.value.hash });
    }
  });
  if (first) return { path: (first as ResolvedModel).path, info: (first as ResolvedModel).info, files };
  const missing: readonly ErrorCode[] = ['model_file_not_found', 'model_not_found'];
  const telling = errors.find((error) => !missing.includes(error.code)) ?? errors[0];
  if (telling && !missing.includes(telling.code)) throw telling;
  const names = asked.map((node) => node.durable.name).join(', ');
  throw new CoveyError(
    'model_file_not_found',
    `No machine has ${request.model} (asked: ${names}). Give a path that exists there, or a name from "covey models".`,
    { field: 'model' },
  );
}

function candidates(state: ControllerState, request: DeploymentRequest): NodeRecord[] {
  const named = request.leader
    ? [request.leader]
    : (request.nodes ?? (request.weights ? (Object.keys(request.weights) as NodeId[]) : null));
  const nodes = named
    ? named.map((id) => state.nodes.get(id)).filter((node) => node !== undefined)
    : [...state.nodes.values()];
  return nodes.filter((node) => node.live.session !== null);
}

/** The file's name without its folder, `.gguf` and shard number: what people call it. */
export function modelName(path: string): string {
  const base = path.split(/[/\\]/).at(-1) ?? path;
  const clean = base.replace(/\p{C}/gu, '?');
  return clean.replace(/\.gguf$/i, '').replace(/-\d{5}-of-\d{5}$/, '') || clean;
}

function sameRequest(a: DeploymentRequest, b: DeploymentRequest): boolean {
  const key = (request: DeploymentRequest): string =>
    JSON.stringify([
      request.model,
      request.nodes,
      request.weights && Object.entries(request.weights).sort(([x], [y]) => (x < y ? -1 : 1)),
      request.leader,
      request.contextPerRequest,
      request.parallel,
    ]);
  return key(a) === key(b);
}
