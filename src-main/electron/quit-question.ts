import type { Serving } from '../roles/role-node.ts';

/** What to ask before quitting, null when nothing is lost by it. Pure. */
export function quitQuestion({ models, engines }: Serving): { message: string; detail: string } | null {
  if (models.length === 0 && engines === 0) return null;
  const named = models.slice(0, 3).map((model) => `"${model}"`);
  const more = models.length > named.length ? ` and ${models.length - named.length} more` : '';
  return models.length > 0
    ? {
        message: `Quit while serving ${named.join(', ')}${more}?`,
        detail: 'Requests under way end, and the models are loaded again when Covey starts.',
      }
    : {
        message: 'Quit while this computer works for the covey?',
        detail: 'Models that it holds a part of are interrupted and have to load again without it.',
      };
}
