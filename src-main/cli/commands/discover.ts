import type { Command } from 'commander';
import type { AddressAttempt, InterfaceView } from '#shared/domain/network.ts';
import type { Discovered } from '#shared/api/self.ts';
import { shortNodeId } from '#shared/lib/ids.ts';
import type { CommandContext, Style } from '../context.ts';
import type { AddCommands } from '../registry.ts';
import { renderTable } from '../table.ts';
import { duration, printable, wrap } from '../text.ts';

export const addDiscoverCommand: AddCommands = ({ add, act }) => {
  add('discover', 'the machines that this one hears of on its network').action((_flags, command: Command) =>
    act(command, discover),
  );
};

const groups = [
  ['This covey', ['self', 'controller', 'member']],
  ['Other controllers', ['kin', 'stranger'], 'controller'],
  ['Other machines', ['kin', 'stranger'], 'worker'],
  ['Machines that use a key twice', ['duplicate']],
] as const satisfies readonly (readonly [string, readonly Discovered['relation'][], Discovered['role']?])[];

export async function discover({ api, io, json, width, style }: CommandContext): Promise<void> {
  const view = await api.call('discovery');
  if (json) return io.out(`${JSON.stringify(view)}\n`);
  const sections: string[] = [];
  for (const [title, relations, role] of groups) {
    const machines = view.machines.filter(
      (one) =>
        (relations as readonly string[]).includes(one.relation) && (role === undefined || one.role === role),
    );
    if (machines.length === 0) continue;
    const blocks = machines.map((one) => describeMachine(one, io.now(), width, style));
    sections.push(`${title}\n${blocks.join('')}`);
  }
  if (view.interfaces.length > 0) {
    sections.push(`Listening on\n${interfaceTable(view.interfaces, width, style)}`);
  }
  if (view.problem !== null) sections.push(`${wrap(printable(view.problem), width).join('\n')}\n`);
  const hint = whatNext(view.machines);
  if (hint !== null) sections.push(`${wrap(hint, width).join('\n')}\n`);
  io.out(sections.join('\n'));
}

/** One line about the machine, one for each address that was tried, and one for what is wrong with it. */
function describeMachine(machine: Discovered, now: number, width: number, style: Style): string {
  const facts = [
    `covey ${machine.version}`,
    ...(machine.interfaces.length > 0 && machine.relation !== 'self'
      ? [`heard on ${machine.interfaces.join(', ')}`]
      : []),
    ...(machine.relation === 'self' ? [] : [`${duration(Math.max(0, now - machine.lastSeenAt))} ago`]),
  ];
  const head = `  ${printable(machine.name)}  ${shortNodeId(machine.nodeId)}  ${what(machine)}`;
  const remark = remarkOn(machine);
  return [
    ...hanging(head, 4, width),
    ...hanging(`    ${printable(facts.join(', '))}`, 4, width).map(style.dim),
    ...machine.attempts.flatMap((attempt) => {
      const { text, good } = outcome(attempt, machine);
      const { host, port } = attempt.address;
      const address = host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
      return hanging(`    ${address} ${text}`, 6, width).map(good ? style.good : style.warn);
    }),
    ...(remark === null ? [] : hanging(`    ${remark}`, 4, width).map(style.bad)),
  ]
    .map((line) => `${line}\n`)
    .join('');
}

function what({ relation, role }: Discovered): string {
  switch (relation) {
    case 'self':
      return `${role}, this machine`;
    case 'controller':
      return 'the controller';
    case 'member':
      return 'member';
    case 'kin':
      return `${role}, shows our cluster secret's mark`;
    case 'duplicate':
      return `${role}, claims a key that another machine uses too`;
    case 'stranger':
      return role;
  }
}

function outcome(attempt: AddressAttempt, machine: Discovered): { text: string; good: boolean } {
  if (attempt.nodeId === null) return { text: printable(attempt.problem ?? 'does not answer'), good: false };
  if (attempt.nodeId !== machine.nodeId) {
    return { text: `shows another key: ${shortNodeId(attempt.nodeId)}`, good: false };
  }
  return { text: `answered in ${duration(attempt.connectMs ?? 0)}`, good: true };
}

function remarkOn(machine: Discovered): string | null {
  if (machine.verified) return null;
  return machine.attempts.some((attempt) => attempt.nodeId !== null)
    ? 'Not who it says it is: no address shows the key that it claims.'
    : 'Not verified: no address answered, so this is only what it says of itself.';
}

function interfaceTable(interfaces: readonly InterfaceView[], width: number, style: Style): string {
  const indent = '  ';
  const notes = interfaces.flatMap(({ name, problem }) =>
    problem === null ? [] : hanging(`${indent}${printable(`${name} ${problem}.`)}`, 4, width),
  );
  const table = renderTable<InterfaceView>(
    [
      { header: 'INTERFACE', value: (one) => one.name, shrinkTo: 12 },
      { header: 'ADDRESS', value: (one) => one.address, shrinkTo: 15 },
      { header: 'KIND', value: (one) => (one.virtual ? 'container or VPN' : 'network') },
      {
        header: 'STATE',
        value: (one) => (one.working ? 'works' : 'does not work'),
        paint: (text, one) => (one.working ? style.good : style.bad)(text),
      },
    ],
    interfaces,
    width,
    indent,
  );
  return notes.length === 0 ? table : `${table}${notes.join('\n')}\n`;
}

function whatNext(machines: readonly Discovered[]): string | null {
  if (machines.some((one) => one.relation === 'duplicate')) {
    return 'A key on two machines is a copied data directory: "covey identity new" makes a new key for one of them.';
  }
  const self = machines.find((one) => one.relation === 'self');
  const joined = machines.some((one) => one.relation === 'controller');
  if (self?.role !== 'worker' || joined) return null;
  const controller = machines.find((one) => one.role === 'controller' && one.verified);
  return controller ? `To join a controller: covey join "${printable(controller.name)}"` : null;
}

/** Wrapped, with the lines after the first indented. */
function hanging(text: string, indent: number, width: number): string[] {
  const lead = /^ */.exec(text)?.[0] ?? '';
  const [first = '', ...rest] = wrap(text.trimStart(), width - Math.max(indent, lead.length));
  return [`${lead}${first}`, ...rest.map((line) => `${' '.repeat(indent)}${line}`)];
}
