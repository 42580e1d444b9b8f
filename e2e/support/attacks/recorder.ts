import { createWriteStream } from 'node:fs';
import { connect, createServer } from 'node:net';

/**
 * Somebody on the way: `recorder.ts HOST PORT FILE` takes connections on port 7879, passes them on to HOST:PORT and
 * writes what the first of them sends into FILE. Prints `ready`.
 */
const [host = '', port = '0', file = ''] = process.argv.slice(2);
let first = true;
const server = createServer((client) => {
  const tape = first ? createWriteStream(file) : null;
  first = false;
  const upstream = connect({ host, port: Number(port) });
  const end = (): void => {
    client.destroy();
    upstream.destroy();
    tape?.end();
  };
  client.on('data', (chunk: Buffer) => {
    tape?.write(chunk);
    upstream.write(chunk);
  });
  upstream.on('data', (chunk: Buffer) => client.write(chunk));
  for (const socket of [client, upstream]) socket.on('error', end).on('close', end);
});
server.listen(7879, '0.0.0.0', () => process.stdout.write('ready\n'));
