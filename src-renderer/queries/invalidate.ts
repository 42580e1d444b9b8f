import type { QueryClient } from '@tanstack/react-query';
import type { DeploymentView } from '#shared/domain/deployment.ts';
import type { ApiEvent, ApiRoute } from '#shared/api/schema.ts';

/** Which answers an event makes out of date. The first rule whose pattern fits the kind counts. */
const rules: readonly (readonly [RegExp, readonly ApiRoute[]])[] = [
  [/^(load-progress|live)$/, []],
  [/^audit-(join|invite|cluster-secret)/, ['pending', 'nodes', 'status', 'clusterSecret']],
  [/^audit-(key|login)/, ['keys', 'settings']],
  [/^(audit-setting|certificate)/, ['settings', 'self']],
  [/^security-join/, ['pending']],
  [/^security-/, []],
  [/^(model|transfer)/, ['models']],
  [/^network-/, ['links', 'nodes']],
  [
    /^(job|distribution|partition|share|gang)/,
    ['jobs', 'job', 'jobPartitions', 'jobStats', 'tasks', 'artifacts'],
  ],
  [/^artifact/, ['artifacts']],
  [
    /^(node|session|drain|hardware)/,
    ['nodes', 'status', 'deployments', 'links', 'pending', 'models', 'job', 'artifacts'],
  ],
];
const otherwise: readonly ApiRoute[] = ['deployments', 'nodes', 'status'];

export function routesOf(event: ApiEvent): readonly ApiRoute[] {
  return rules.find(([pattern]) => pattern.test(event.kind))?.[1] ?? otherwise;
}

/**
 * Collects what is out of date and asks for it again together, so that a hundred events in a second cost one
 * request for each list. What nobody looks at is asked for when somebody does.
 */
export function createInvalidator(client: QueryClient, firstMs = 100, leastMs = 1_000) {
  const waiting = new Set<ApiRoute>();
  let timer: ReturnType<typeof setTimeout> | undefined;
  let asking = false;
  let stopped = false;
  const schedule = (ms: number): void => {
    if (waiting.size > 0 && timer === undefined && !asking && !stopped) timer = setTimeout(flush, ms);
  };
  function flush(): void {
    timer = undefined;
    asking = true;
    const routes = [...waiting];
    waiting.clear();
    const rest = new Promise((resolve) => setTimeout(resolve, leastMs));
    // Never a second request for what is being answered: a slow server would only get slower.
    void Promise.allSettled([
      rest,
      ...routes.map((route) => client.invalidateQueries({ queryKey: [route] })),
    ]).then(() => {
      asking = false;
      schedule(0);
    });
  }
  return {
    add(routes: Iterable<ApiRoute>) {
      for (const route of routes) waiting.add(route);
      schedule(firstMs);
    },
    stop() {
      stopped = true;
      clearTimeout(timer);
    },
  };
}
export type Invalidator = ReturnType<typeof createInvalidator>;

/** Progress of a load goes straight into the list that is shown. */
export function withProgress(
  deployments: readonly DeploymentView[],
  event: ApiEvent,
): readonly DeploymentView[] {
  if (event.stages === undefined) return deployments;
  const news = new Map(event.stages.map((stage) => [stage.engineId, stage]));
  return deployments.map((deployment) => {
    if (deployment.id !== event.deploymentId) return deployment;
    const stages = deployment.stages.map((stage) => {
      const found = news.get(stage.engineId);
      return found ? { ...stage, phase: found.phase, progress: found.progress } : stage;
    });
    const leader = stages.find((stage) => stage.role === 'leader');
    return { ...deployment, stages, progress: leader?.progress ?? deployment.progress };
  });
}
