import type { Preview } from '#shared/api/dashboard.ts';
import type { NodeId } from '#shared/lib/ids.ts';
import { numberProblem } from '../../format/read-number.ts';
import { layersByNode, type LoadChoice } from './placement-view.ts';

/** The load dialog between its opening and its button. */
export interface LoadForm {
  readonly model: string;
  /** Machines that a person has chosen, in the order of the strip; null: the planner chooses. */
  readonly chosen: readonly NodeId[] | null;
  /** Layers of each of `chosen` as a person has set them; null: shared out by memory. */
  readonly layers: readonly number[] | null;
  readonly leader: NodeId | null;
  /** This and the next as typed: what the controller would not even take is left out of what it is asked. */
  readonly contextPerRequest: number | null;
  readonly parallel: number | null;
  readonly name: string;
}

export function newLoadForm(model: string): LoadForm {
  return {
    model,
    chosen: null,
    layers: null,
    leader: null,
    contextPerRequest: null,
    parallel: null,
    name: '',
  };
}

/** Machines that take part now: those chosen, else those of the plan. */
export function machinesOf(form: LoadForm, preview: Preview | null): readonly NodeId[] {
  return form.chosen ?? (preview === null ? [] : layersByNode(preview).map(({ nodeId }) => nodeId));
}

/**
 * Adds or removes a machine. Shares that were set by hand no longer add up then, so they are by memory again. The
 * last machine stays: a model has to be somewhere.
 */
export function toggleMachine(form: LoadForm, preview: Preview | null, id: NodeId): LoadForm {
  const before = machinesOf(form, preview);
  const isIn = before.includes(id);
  if (isIn && before.length === 1) return form;
  const chosen = isIn ? before.filter((other) => other !== id) : [...before, id];
  return { ...form, chosen, layers: null, leader: form.leader === id && isIn ? null : form.leader };
}

/** Layers set by hand; the first machine of the strip leads. */
export function editLayers(form: LoadForm, machines: readonly NodeId[], layers: readonly number[]): LoadForm {
  return { ...form, chosen: machines, layers };
}

export function shareByMemory(form: LoadForm): LoadForm {
  return { ...form, layers: null };
}

/** The machine that runs the engine and has the file; null: the planner chooses. It takes part from then on. */
export function chooseLeader(form: LoadForm, preview: Preview | null, leader: NodeId | null): LoadForm {
  if (leader === null) return { ...form, leader };
  const before = machinesOf(form, preview);
  const chosen = [leader, ...before.filter((id) => id !== leader)];
  const keepsLayers = form.layers !== null && before.includes(leader);
  const byId = new Map(before.map((id, index) => [id, form.layers?.[index] ?? 0]));
  return { ...form, leader, chosen, layers: keepsLayers ? chosen.map((id) => byId.get(id) ?? 0) : null };
}

/** What the controller takes. */
export const ranges = {
  contextPerRequest: { min: 16, max: 16_777_216, whole: true },
  parallel: { min: 1, max: 64, whole: true },
} as const;

/** Whether all that was typed can be asked for. */
export function isTakeable(form: LoadForm): boolean {
  return (
    numberProblem(form.contextPerRequest, ranges.contextPerRequest) === null &&
    numberProblem(form.parallel, ranges.parallel) === null
  );
}

export function toChoice(form: LoadForm): LoadChoice {
  const taken = (name: keyof typeof ranges): number | null =>
    numberProblem(form[name], ranges[name]) === null ? form[name] : null;
  return {
    ...form,
    nodes: form.chosen ?? [],
    contextPerRequest: taken('contextPerRequest'),
    parallel: taken('parallel'),
  };
}

/** What the strip shows: layers as set by hand, else those of the plan. Empty while there is neither. */
export function stripOf(
  form: LoadForm,
  preview: Preview | null,
): { readonly machines: readonly NodeId[]; readonly layers: readonly number[] } {
  if (form.layers !== null && form.chosen !== null) return { machines: form.chosen, layers: form.layers };
  const planned = preview === null ? [] : layersByNode(preview);
  return { machines: planned.map(({ nodeId }) => nodeId), layers: planned.map(({ layers }) => layers) };
}
