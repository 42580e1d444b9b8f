import { CommanderError } from 'commander';
import { CoveyError } from '#shared/errors.ts';
import { productVersion } from '../nodejs/version.ts';
import type { ApiClient } from './api-client.ts';
import { openApi } from './api-place.ts';
import { createStyle, dataDirectoryOf, outputWidth } from './context.ts';
import { Exit, UsageError, describeError, exitCodeOf, exitCodes, hintFor } from './failure.ts';
import { wrapLines } from './help-text.ts';
import type { CliIo } from './io.ts';
import { createProgram } from './program.ts';
import { suggest } from './suggest.ts';
import { printable, printableLines } from './text.ts';

/**
 * Runs one command to its end.
 * @param argv without the program's own name
 * @returns the exit code: 0 done, 1 failed, 2 wrong usage, 3 no controller reached, 130 interrupted
 */
export async function runCli(argv: readonly string[], given: CliIo): Promise<number> {
  const io = given.errIsTty ? { ...given, err: wrapped(given) } : given;
  let json = argv.includes('--json');
  let api: ApiClient | null = null;
  const program = createProgram(io, productVersion, async (options, command) => {
    json = options.json;
    const dataDirectory = dataDirectoryOf(options.data, io);
    const named = options.data !== undefined || Boolean(io.env['COVEY_DATA']);
    api = await openApi(dataDirectory, named, options.api, io);
    await command({ io, api, json, dataDirectory, width: outputWidth(io), style: createStyle(io) });
  });
  try {
    if (argv.length === 0) {
      io.out(program.helpInformation());
      io.err(
        '\nStart with "covey controller" on one machine, then "covey worker" and "covey join" on the others.\n',
      );
      return exitCodes.usage;
    }
    await program.parseAsync([...argv], { from: 'user' });
    return exitCodes.done;
  } catch (error) {
    // commander has already said what is wrong, with a suggestion where one is near.
    if (error instanceof CommanderError) return error.exitCode === 0 ? exitCodes.done : exitCodes.usage;
    await report(error, io, json, api);
    return exitCodeOf(error);
  } finally {
    (api as ApiClient | null)?.close();
  }
}

/** Sentences for people on a terminal are broken between words. */
function wrapped(io: CliIo): CliIo['err'] {
  return (text) => io.err(wrapLines(text, Math.max(40, io.columns)));
}

async function report(error: unknown, io: CliIo, json: boolean, api: ApiClient | null): Promise<void> {
  if (error instanceof Exit) return;
  if (error instanceof UsageError) {
    // A file or an answer may have words in it that somebody else has written.
    io.err(
      `error: ${printableLines(error.message)}\n${error.hint === '' ? '' : `${printableLines(error.hint)}\n`}`,
    );
    return;
  }
  const body = CoveyError.from(error).toBody();
  if (json) io.out(`${JSON.stringify({ error: body })}\n`);
  io.err(`error: ${describeError(body)}`);
  const hint = hintFor(body) ?? (api === null ? null : await nearName(body.code, body.message, api));
  if (hint !== null) io.err(`${hint}\n`);
}

/** For a name that does not exist: the one that was probably meant. Never fails. */
async function nearName(code: string, message: string, api: ApiClient): Promise<string | null> {
  const wrong = /"([^"]+)"/.exec(message)?.[1];
  if (wrong === undefined) return null;
  try {
    const known = await namesFor(code, api);
    const near = suggest(wrong, known);
    return near === null ? null : `Did you mean "${printable(near)}"?`;
  } catch {
    return null;
  }
}

/** Names of the kind of thing that was not found. */
async function namesFor(code: string, api: ApiClient): Promise<string[]> {
  const timeoutMs = 3_000;
  switch (code) {
    case 'node_not_found':
      return (await api.call('nodes', { timeoutMs })).nodes.map((node) => node.name);
    case 'deployment_not_found':
      return (await api.call('deployments', { timeoutMs })).deployments.flatMap(({ model, id }) => [
        model,
        id,
      ]);
    case 'job_not_found':
      return (await api.call('jobs', { timeoutMs })).jobs.flatMap(({ name, id }) => [name, id]);
    case 'artifact_not_found':
      return (await api.call('artifacts', { timeoutMs })).artifacts.map((artifact) => artifact.name);
    default:
      return [];
  }
}
