import type { NodeView } from '#shared/api/schema.ts';
import type { DeploymentView } from '#shared/domain/deployment.ts';
import type { Overview } from './api.ts';

/** Everything goes in as text: names come from other machines. */
export function element<E extends HTMLElement>(id: string): E {
  return document.getElementById(id) as E;
}

export function renderOverview({ status, nodes, deployments }: Overview): void {
  const facts: [string, string][] = [
    ['Controller', `${status.name}, version ${status.version}`],
    ['For your apps', `${location.origin}/v1`],
    ['Machines', `${status.nodes.ready} of ${status.nodes.total} may get work`],
    ['Models', `${status.deployments.ready} of ${status.deployments.total} ready`],
    ['Requests', `${status.requestsRunning} running`],
  ];
  element('facts').replaceChildren(
    ...facts.flatMap(([name, value]) => [textElement('dt', name), textElement('dd', value)]),
  );
  renderRows('machines', nodes.map(machineCells));
  renderRows('models', deployments.map(modelCells));
}

interface Cell {
  readonly text: string;
  readonly style?: string;
}

function machineCells(node: NodeView): Cell[] {
  const load = node.telemetry?.cpuLoad ?? null;
  return [
    { text: node.name },
    { text: node.status, style: node.eligible ? 'good' : node.connected ? 'warn' : 'bad' },
    { text: load === null ? '' : `${Math.round(load * 100)} %`, style: 'number' },
    { text: node.telemetry ? gibibytes(node.telemetry.ramAvailableBytes) : '', style: 'number' },
  ];
}

function modelCells(deployment: DeploymentView): Cell[] {
  const style = { ready: 'good', failed: 'bad' }[deployment.status as string] ?? 'warn';
  return [
    { text: deployment.model },
    { text: deployment.status, style },
    { text: String(deployment.requestsRunning), style: 'number' },
  ];
}

function gibibytes(bytes: number): string {
  return `${(bytes / 2 ** 30).toFixed(1)} GiB`;
}

function renderRows(id: 'machines' | 'models', rows: readonly Cell[][]): void {
  const table = element<HTMLTableElement>(id);
  table.hidden = rows.length === 0;
  element(`no-${id}`).hidden = rows.length > 0;
  const body = table.tBodies[0];
  body?.replaceChildren(
    ...rows.map((cells) => {
      const row = document.createElement('tr');
      row.append(...cells.map(({ text, style }) => textElement('td', text, style)));
      return row;
    }),
  );
}

function textElement(tag: 'dt' | 'dd' | 'td', text: string, style?: string): HTMLElement {
  const made = document.createElement(tag);
  made.textContent = text;
  if (style !== undefined) made.className = style;
  return made;
}
