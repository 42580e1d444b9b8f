import { connect } from 'node:net';
import { descendantsOf, processInfo } from '../../support/processes.ts';
import { readCorpus } from '../corpus.ts';
import type { Random } from '../random.ts';
import type { FuzzTarget } from '../target.ts';
import { makeRequest, type HttpContext } from './http-request.ts';

/** An answer that has not come by then is not waited for: our side of the connection ends. */
const patienceMs = 100;
/** Then the other side must end, too. */
const endMs = 8_000;
const healthEvery = 400;

/**
 * Requests over raw sockets to the API of a controller that runs. Whatever comes, it answers with HTTP and a status
 * of its own, never 500, never to another Host, never with a header that lets other sites in; and goes on.
 */
export function createTarget(given: unknown): FuzzTarget {
  const context = given as HttpContext;
  const bodies = readCorpus('http-bodies.jsonl');
  let count = 0;
  return {
    async run(random: Random) {
      const { bytes, foreignHost } = makeRequest(random, context, bodies);
      const answer = (await exchange(context.port, bytes)).toString('latin1');
      try {
        judge(answer, foreignHost);
      } catch (error) {
        const reason = error instanceof Error ? error.message : String(error);
        throw new Error(
          `${reason}\nrequest: ${excerpt(bytes.toString('latin1'))}\nanswer: ${excerpt(answer)}`,
        );
      }
      count += 1;
      if (count % healthEvery === 0) await checkHealth(context);
    },
    memoryBytes: () =>
      [context.pid, ...descendantsOf(context.pid).map(({ pid }) => pid)].reduce(
        (sum, pid) => sum + (processInfo(pid)?.rssBytes ?? 0),
        0,
      ),
  };
}

function judge(answer: string, foreignHost: boolean): void {
  if (answer === '') return;
  const head = /^HTTP\/1\.1 (\d{3}) [^\r\n]*\r\n((?:[^\r\n]+\r\n)*)\r\n/.exec(answer);
  if (!head) throw new Error('the answer is no HTTP');
  const status = Number(head[1]);
  if (status === 100) return;
  if (status === 500) throw new Error('internal error');
  if (/^(?:access-control-|set-cookie)/im.test(head[2] ?? ''))
    throw new Error('a header that lets others in');
  if (foreignHost && status < 400) throw new Error('served under another name');
  if (/\.m?[jt]s:\d+/.test(answer)) throw new Error('shows where in the program it happened');
}

async function checkHealth({ port, pid }: HttpContext): Promise<void> {
  if (!processInfo(pid)) throw new Error('the controller is gone');
  const request = `GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nConnection: close\r\n\r\n`;
  const answer = (await exchange(port, Buffer.from(request), endMs)).toString('latin1');
  if (!answer.startsWith('HTTP/1.1 200 ')) throw new Error(`/healthz answers ${excerpt(answer)}`);
}

function exchange(port: number, bytes: Buffer, waitMs = patienceMs): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    const socket = connect({ host: '127.0.0.1', port, allowHalfOpen: true });
    const enough = setTimeout(() => socket.end(), waitMs);
    const late = setTimeout(() => {
      reject(
        new Error(`the connection was not ended within ${endMs} ms: ${excerpt(bytes.toString('latin1'))}`),
      );
      socket.destroy();
    }, endMs + waitMs);
    socket.on('connect', () => socket.write(bytes));
    socket.on('data', (chunk: Buffer) => chunks.push(chunk));
    socket.on('end', () => socket.end());
    socket.on('error', () => undefined);
    socket.on('close', () => {
      clearTimeout(enough);
      clearTimeout(late);
      resolve(Buffer.concat(chunks));
    });
  });
}

function excerpt(text: string): string {
  return JSON.stringify(text.length > 1_500 ? `${text.slice(0, 1_500)}...` : text);
}
