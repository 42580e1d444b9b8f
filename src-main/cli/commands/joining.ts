import type { Command } from 'commander';
import { pairingCodeSchema, type PendingView } from '#shared/api/joining.ts';
import { CoveyError } from '#shared/errors.ts';
import { shortNodeId } from '#shared/lib/ids.ts';
import { tell, type CommandContext } from '../context.ts';
import { UsageError } from '../failure.ts';
import type { AddCommands } from '../registry.ts';
import { renderTable } from '../table.ts';
import { duration, printable } from '../text.ts';
import { joinCovey, leaveCovey, setClusterSecret } from './join.ts';

export const addJoiningCommands: AddCommands = ({ add, act, group }) => {
  add('invite', 'print a join string for one more machine').action((_flags, command: Command) =>
    act(command, invite),
  );
  add('pending', 'the machines that ask to join').action((_flags, command: Command) => act(command, pending));
  add('approve <code...>', 'let in the machine that shows this number').action(
    (code: string[], _flags, command: Command) => act(command, (context) => approve(context, code)),
  );
  add('deny <id>', 'refuse a machine that asks to join')
    .option('--block', 'and let it not ask again', false)
    .action((id: string, flags: { block: boolean }, command: Command) =>
      act(command, (context) => deny(context, id, flags.block)),
    );
  add('unblock <id>', 'let a blocked machine ask again').action((id: string, _flags, command: Command) =>
    act(command, (context) => unblock(context, id)),
  );
  add('join [controller]', 'on a worker: join a covey (address, name, join string, or - to read one)').action(
    (target: string | undefined, _flags, command: Command) =>
      act(command, (context) => joinCovey(context, target)),
  );
  add('leave', 'on a worker: leave the covey')
    .option('--yes', 'do not ask', false)
    .action((flags: { yes: boolean }, command: Command) =>
      act(command, (context) => leaveCovey(context, flags.yes)),
    );
  const secret = group('secret', 'the cluster secret, by which machines join by themselves', showSecret);
  add('show', 'print it', secret).action((_flags, command: Command) => act(command, showSecret));
  add('new', 'make one, or another in its place', secret).action((_flags, command: Command) =>
    act(command, newSecret),
  );
  add('drop', 'have none any more', secret).action((_flags, command: Command) => act(command, dropSecret));
  add('set', 'on a worker: read one, and join by it', secret).action((_flags, command: Command) =>
    act(command, setClusterSecret),
  );
};

async function invite({ api, io, json }: CommandContext): Promise<void> {
  const invitation = await api.call('invite');
  if (json) return io.out(`${JSON.stringify(invitation)}\n`);
  // Only the string on stdout: `covey invite | ssh attic covey worker --join -` works.
  io.out(`${invitation.joinString}\n`);
  io.err(
    `Run on the other machine:  covey worker --join -   (where a worker runs: covey join -)\n` +
      `and paste the line above there. It works once, for ${duration(invitation.expiresAt - io.now())}.\n`,
  );
}

async function pending({ api, io, json, width, style }: CommandContext): Promise<void> {
  const answer = await api.call('pending');
  if (json) return io.out(`${JSON.stringify(answer)}\n`);
  const now = io.now();
  const parts: string[] = [];
  if (answer.pending.length === 0) {
    parts.push('No machine is waiting to join. "covey join" on a worker asks.\n');
  } else {
    parts.push(
      renderTable<PendingView>(
        [
          { header: 'ID', value: (one) => one.id },
          { header: 'NAME', value: (one) => one.name, shrinkTo: 8 },
          { header: 'FROM', value: (one) => one.remoteAddress, shrinkTo: 12 },
          { header: 'ENDS IN', value: (one) => duration(Math.max(0, one.expiresAt - now)), align: 'right' },
          { header: 'WAITS FOR', value: waitsFor },
        ],
        answer.pending,
        width,
      ),
      answer.pending.some(({ approved }) => !approved)
        ? `Type the number that a machine shows: "covey approve 123 456".\n`
        : '',
    );
  }
  if (answer.blocked.length > 0) {
    parts.push(
      `\nBlocked ("covey unblock ID" undoes it)\n`,
      renderTable(
        [
          { header: 'ID', value: (one) => shortNodeId(one.nodeId) },
          { header: 'NAME', value: (one) => one.name, shrinkTo: 8 },
          { header: 'FOR', value: (one) => duration(Math.max(0, now - one.blockedAt)), align: 'right' },
        ],
        answer.blocked,
        width,
        '  ',
      ),
    );
  }
  io.out(parts.map((part, index) => (index === 0 ? part : style.dim(part))).join(''));
}

function waitsFor({ approved, confirmed }: PendingView): string {
  if (approved) return 'its confirmation there';
  return confirmed ? 'its number here' : 'its number here, then there';
}

/** @param words the six digits, as people group them */
async function approve({ api, io, json }: CommandContext, words: readonly string[]): Promise<void> {
  const code = pairingCodeSchema.safeParse(words.join(''));
  if (!code.success) {
    throw new UsageError(
      'The number to approve is the six digits that the other machine shows.',
      'Example: covey approve 123 456',
    );
  }
  const view = await api.call('approve', { body: { code: code.data } });
  if (json) return io.out(`${JSON.stringify(view)}\n`);
  const name = printable(view.name);
  tell(
    io,
    view.confirmed
      ? `${name} is let in.\n`
      : `The number is that of ${name}. Confirm it there too: then the machine is let in.\n`,
  );
}

async function deny({ api, io, json }: CommandContext, id: string, block: boolean): Promise<void> {
  const view = await api.call('deny', { params: { id }, body: { block } });
  if (json) return io.out(`${JSON.stringify(view)}\n`);
  const name = printable(view.name);
  tell(
    io,
    block ? `${name} is denied and blocked. Undo with "covey unblock ${view.id}".\n` : `${name} is denied.\n`,
  );
}

async function unblock({ api, io, json }: CommandContext, id: string): Promise<void> {
  const answer = await api.call('unblock', { params: { id } });
  io.out(json ? `${JSON.stringify(answer)}\n` : `${printable(id)} may ask to join again.\n`);
}

async function showSecret({ api, io, json }: CommandContext): Promise<void> {
  const answer = await api.call('clusterSecret');
  if (json) return io.out(`${JSON.stringify(answer)}\n`);
  if (answer.secret === null) {
    throw new CoveyError(
      'cluster_secret_missing',
      'There is no cluster secret. "covey secret new" makes one.',
    );
  }
  printSecret(io, answer.secret);
}

async function newSecret({ api, io, json }: CommandContext): Promise<void> {
  const answer = await api.call('newClusterSecret');
  if (json) return io.out(`${JSON.stringify(answer)}\n`);
  printSecret(io, answer.secret);
}

/** Only the secret on stdout, so that it can be piped to `covey secret set`. */
function printSecret(io: CommandContext['io'], secret: string): void {
  io.out(`${secret}\n`);
  io.err(
    'Every machine that holds it joins this covey by itself: give it with "covey secret set" there.\n' +
      'It changes when a machine is removed. Who reads it can join.\n',
  );
}

async function dropSecret({ api, io, json }: CommandContext): Promise<void> {
  const answer = await api.call('dropClusterSecret');
  io.out(
    json
      ? `${JSON.stringify(answer)}\n`
      : 'There is no cluster secret any more: no machine joins by itself.\n',
  );
}
