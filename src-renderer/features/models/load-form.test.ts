import { describe, expect, it } from 'vitest';
import type { Preview } from '#shared/api/dashboard.ts';
import type { NodeId } from '#shared/lib/ids.ts';
import {
  chooseLeader,
  editLayers,
  machinesOf,
  newLoadForm,
  shareByMemory,
  stripOf,
  toChoice,
  toggleMachine,
} from './load-form.ts';
import { loadBody } from './placement-view.ts';

const [anna, ben, carl] = ['a', 'b', 'c'].map((digit) => digit.repeat(64) as NodeId) as [
  NodeId,
  NodeId,
  NodeId,
];
const stage = (nodeId: NodeId, role: 'leader' | 'stage', layers: number): Preview['stages'][number] => ({
  nodeId,
  nodeName: nodeId.slice(0, 1),
  role,
  device: 'CPU',
  layers,
  percent: 0,
  neededBytes: 1,
  availableBytes: 2,
});
const plan = (...stages: Preview['stages']): Preview => ({
  ok: true,
  layersTotal: 9,
  contextPerRequest: 512,
  parallel: 4,
  stages,
  error: null,
});
const alone = plan(stage(anna, 'leader', 9));
const both = plan(stage(anna, 'leader', 5), stage(ben, 'stage', 4));

describe('the load dialog', () => {
  it('begins with what the planner would do', () => {
    const form = newLoadForm('tiny');
    expect(machinesOf(form, null)).toEqual([]);
    expect(stripOf(form, alone)).toEqual({ machines: [anna], layers: [9] });
    expect(loadBody(toChoice(form))).toEqual({ model: 'tiny' });
  });

  it('takes a second machine, then shares by hand, then by memory again', () => {
    const two = toggleMachine(newLoadForm('tiny'), alone, ben);
    expect(loadBody(toChoice(two))).toEqual({ model: 'tiny', nodes: [anna, ben] });
    const byHand = editLayers(two, [anna, ben], [6, 3]);
    expect(stripOf(byHand, both)).toEqual({ machines: [anna, ben], layers: [6, 3] });
    expect(loadBody(toChoice(byHand))).toEqual({
      model: 'tiny',
      split: { [anna]: 6, [ben]: 3 },
      leader: anna,
    });
    expect(stripOf(shareByMemory(byHand), both)).toEqual({ machines: [anna, ben], layers: [5, 4] });
  });

  it('forgets shares by hand when the machines change, and keeps the last machine', () => {
    const byHand = editLayers(newLoadForm('tiny'), [anna, ben], [6, 3]);
    const three = toggleMachine(byHand, both, carl);
    expect(three).toMatchObject({ chosen: [anna, ben, carl], layers: null });
    const one = toggleMachine(toggleMachine(three, both, anna), both, ben);
    expect(one.chosen).toEqual([carl]);
    expect(toggleMachine(one, both, carl)).toBe(one);
  });

  it('lets a machine lead: it comes first with its layers, and joins if it was not there', () => {
    const byHand = editLayers(newLoadForm('tiny'), [anna, ben], [6, 3]);
    expect(chooseLeader(byHand, both, ben)).toMatchObject({
      leader: ben,
      chosen: [ben, anna],
      layers: [3, 6],
    });
    expect(chooseLeader(byHand, both, carl)).toMatchObject({ chosen: [carl, anna, ben], layers: null });
    expect(chooseLeader(byHand, both, null)).toMatchObject({ leader: null, layers: [6, 3] });
    const left = toggleMachine(chooseLeader(byHand, both, ben), both, ben);
    expect(left).toMatchObject({ leader: null, chosen: [anna] });
  });
});
