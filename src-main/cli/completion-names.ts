import { shortNodeId } from '#shared/lib/ids.ts';
import type { ApiClient } from './api-client.ts';
import { bytes, printable } from './text.ts';

/** What the covey has names for. */
export type NameKind =
  'nodes' | 'jobs' | 'deployments' | 'models' | 'artifacts' | 'keys' | 'pending' | 'blocked';

export interface Offered {
  readonly word: string;
  readonly about: string;
}

/** Somebody waits at a prompt. */
const askMs = 700;
const mostNames = 200;

/** The names that there are, those of each kind in the order of the API. What cannot be had in time is left out. */
export async function namesOf(api: ApiClient, kinds: readonly NameKind[]): Promise<Offered[]> {
  const found = await Promise.all(kinds.map((kind) => askers[kind](api).catch(() => [])));
  return found
    .flat()
    .filter(({ word }) => word !== '' && !word.startsWith('-') && printable(word) === word)
    .slice(0, mostNames);
}

const timeoutMs = askMs;
const query = { limit: String(mostNames) };
const askers: Readonly<Record<NameKind, (api: ApiClient) => Promise<Offered[]>>> = {
  nodes: async (api) =>
    (await api.call('nodes', { timeoutMs })).nodes.map(({ name, status }) => ({ word: name, about: status })),
  jobs: async (api) =>
    (await api.call('jobs', { timeoutMs, query })).jobs.map(({ id, name, status }) => ({
      word: id,
      about: `${status}: ${name}`,
    })),
  deployments: async (api) =>
    (await api.call('deployments', { timeoutMs })).deployments.map(({ model, id, status }) => ({
      word: model,
      about: `${status}: ${id}`,
    })),
  models: async (api) =>
    (await api.call('models', { timeoutMs })).models.map(({ name, nodeName }) => ({
      word: name,
      about: `on ${nodeName}`,
    })),
  artifacts: async (api) =>
    (await api.call('artifacts', { timeoutMs, query })).artifacts.map(({ name, id, bytes: size }) => ({
      word: name,
      about: `${bytes(size)}, ${id.slice(0, 12)}`,
    })),
  keys: async (api) =>
    (await api.call('keys', { timeoutMs })).keys.map(({ id, name }) => ({ word: id, about: name })),
  pending: async (api) =>
    (await api.call('pending', { timeoutMs })).pending.map(({ id, name }) => ({ word: id, about: name })),
  blocked: async (api) =>
    (await api.call('pending', { timeoutMs })).blocked.map(({ nodeId, name }) => ({
      word: shortNodeId(nodeId),
      about: name,
    })),
};
