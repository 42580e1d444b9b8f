import type { JoinView, StartJoinBody } from '#shared/api/joining.ts';
import { CoveyError } from '#shared/errors.ts';
import { shortNodeId } from '#shared/lib/ids.ts';
import { bigDigits, spacedCode } from '../big-digits.ts';
import { tell, type CommandContext } from '../context.ts';
import { Exit, UsageError, exitCodes } from '../failure.ts';
import { duration, printable } from '../text.ts';

const pollMs = 300;
/** A controller that is not found by then may come later; the worker goes on looking without us. */
const lookMs = 30_000;

/** @param target a join string, `-` for one on standard input, a controller's address, name or id; none: the only one */
export async function joinCovey(context: CommandContext, target: string | undefined): Promise<void> {
  await begin(context, await bodyOf(context, target), 'cancel');
}

/** Gives this machine a cluster secret, by which it joins the controller that has it too. */
export async function setClusterSecret(context: CommandContext): Promise<void> {
  const clusterSecret = (await context.io.secretLine('Cluster secret: '))?.trim();
  if (!clusterSecret) {
    throw new UsageError(
      'No cluster secret was given.',
      'Type it here, or pipe it in: "covey secret show" on the controller prints it.',
    );
  }
  await begin(context, { clusterSecret }, 'leave');
}

export async function leaveCovey({ api, io, json }: CommandContext, yes: boolean): Promise<void> {
  const { membership } = await api.call('self');
  if (!membership) throw new CoveyError('not_a_member', 'This machine belongs to no covey.');
  const name = printable(membership.controllerName);
  if (!yes) {
    const answer = await io.ask(
      `Leave the covey of ${name}? What runs here for it ends, and it must let this machine in again. [y/N] `,
    );
    if (answer === null) throw new UsageError('Leaving must be confirmed.', 'Add --yes.');
    if (!isYes(answer)) {
      io.err('Nothing was changed.\n');
      throw new Exit(exitCodes.failed);
    }
  }
  const self = await api.call('leave', { timeoutMs: 60_000 });
  if (json) return io.out(`${JSON.stringify(self)}\n`);
  tell(io, `This machine has left the covey of ${name}.\nThere, "covey remove" takes it off the list.\n`);
}

async function bodyOf({ io }: CommandContext, target: string | undefined): Promise<StartJoinBody> {
  if (target === undefined) return {};
  if (target.startsWith('covey1.')) return { joinString: target };
  if (target !== '-') return { controller: target };
  const joinString = (await io.secretLine('Join string: '))?.trim();
  if (!joinString) {
    throw new UsageError(
      'No join string came on standard input.',
      'Get one with "covey invite" on the controller.',
    );
  }
  return { joinString };
}

/** @param onInterrupt what Ctrl-C does to the request: `cancel` it, or `leave` this machine to it */
async function begin(
  context: CommandContext,
  body: StartJoinBody,
  onInterrupt: 'cancel' | 'leave',
): Promise<void> {
  const { api, io } = context;
  const interrupted = new AbortController();
  const removeListener = io.onInterrupt(() => interrupted.abort());
  let mine = false;
  try {
    const first = await api.call('join', { body });
    mine = true;
    await follow(context, first, interrupted.signal, onInterrupt);
    mine = false;
  } catch (error) {
    // The request is over already: there is nothing to take back.
    if (error instanceof CoveyError) mine = false;
    throw error;
  } finally {
    removeListener();
    if (mine && onInterrupt === 'cancel') await api.call('cancelJoin').catch(() => undefined);
  }
}

async function follow(
  { api, io, json, style }: CommandContext,
  first: JoinView,
  signal: AbortSignal,
  onInterrupt: 'cancel' | 'leave',
): Promise<void> {
  const until = io.now() + lookMs;
  let shown: string | null = null;
  let confirmed = false;
  for (let view = first; ; view = await next()) {
    switch (view.phase) {
      case 'joined': {
        const name = controllerName(view);
        if (json) return io.out(`${JSON.stringify(view)}\n`);
        return tell(io, `This machine now belongs to the covey of ${name}.\n`);
      }
      case 'failed':
        throw CoveyError.fromBody(
          view.error ?? { code: 'internal_error', message: 'The request to join has failed.' },
        );
      case 'idle':
        throw new CoveyError('cancelled', 'The request to join was taken back at this machine.');
      case 'connecting':
        if (shown === null) {
          shown = '';
          io.err(
            view.controller ? `Asking ${controllerName(view)} ...\n` : 'Looking for the controller ...\n',
          );
        }
        if (onInterrupt === 'leave' && !view.controller && io.now() >= until) {
          io.err('No controller with this secret is in sight. This machine joins by itself when one is.\n');
          if (json) io.out(`${JSON.stringify(view)}\n`);
          return;
        }
        break;
      case 'comparing':
      case 'approved':
        if (view.code !== null && shown !== view.code) {
          shown = view.code;
          showCode(view, view.code);
        }
        if (view.phase === 'approved' && !confirmed && !view.confirmed) {
          await confirm(view);
          confirmed = true;
        }
        break;
    }
  }

  async function next(): Promise<JoinView> {
    await io.sleep(pollMs, signal);
    if (signal.aborted) {
      io.err(onInterrupt === 'cancel' ? '\nTaken back.\n' : '\nThis machine goes on without this command.\n');
      throw new Exit(exitCodes.interrupted);
    }
    const { join } = await api.call('self');
    if (!join)
      throw new CoveyError('internal_error', 'This machine is a controller: it cannot join a covey.');
    return join;
  }

  function showCode(view: JoinView, code: string): void {
    const big = io.errIsTty
      ? `${bigDigits(code)
          .map((line) => `    ${style.good(line)}`)
          .join('\n')}\n\n`
      : '';
    const leftMs = view.expiresAt === null ? null : Math.max(0, view.expiresAt - io.now());
    io.err(
      `\n${big}Type this number at the controller ${controllerName(view)}:\n\n` +
        `    covey approve ${spacedCode(code)}\n\n` +
        `The controller must take it. If it says that the number is wrong, do not go on.\n` +
        `Waiting${leftMs === null ? '' : ` (${duration(leftMs)})`} ... Ctrl-C takes the request back.\n`,
    );
  }

  async function confirm(view: JoinView): Promise<void> {
    const question = `Did the controller ${controllerName(view)} take the number ${spacedCode(view.code ?? '')}? [y/n] `;
    let answer: string | null = '';
    try {
      // A key that was hit by accident takes nothing back.
      while (answer !== null && !isYes(answer) && !isNo(answer)) answer = await io.ask(question, signal);
      // From elsewhere than the terminal: nobody has answered, and the question was taken back.
      if (signal.aborted) throw new Exit(exitCodes.interrupted);
    } catch (error) {
      if (error instanceof Exit) io.err(takenBack);
      throw error;
    }
    if (answer === null) {
      throw new UsageError(
        'A person at this machine must confirm that the controller has taken the number.',
        'Run "covey join" in a terminal.',
      );
    }
    if (isNo(answer)) {
      io.err(takenBack);
      throw new Exit(exitCodes.failed);
    }
    try {
      await api.call('confirmJoin');
    } catch (error) {
      // It ended while the question stood there; the view says by what.
      if (!(error instanceof CoveyError) || error.code !== 'join_not_running') throw error;
    }
  }
}

function controllerName({ controller }: JoinView): string {
  if (!controller) return 'the controller';
  const { name, nodeId, address } = controller;
  if (name !== null) return nodeId === null ? printable(name) : `${printable(name)} (${shortNodeId(nodeId)})`;
  if (address) return printable(`${address.host}:${address.port}`);
  return nodeId === null ? 'the controller' : shortNodeId(nodeId);
}

const takenBack = 'Taken back: this machine has not joined.\n';

function isNo(answer: string): boolean {
  return /^no?$/i.test(answer.trim());
}

function isYes(answer: string): boolean {
  return /^y(es)?$/i.test(answer.trim());
}
