import { connect, createServer } from 'node:net';

/** `relay.ts SOCKET PORT`: joins connections to a socket file to a port on this namespace's loopback. */
const [socketPath, port] = process.argv.slice(2);
const server = createServer((client) => {
  const upstream = connect(Number(port), '127.0.0.1');
  const end = (): void => {
    client.destroy();
    upstream.destroy();
  };
  client.on('error', end).on('close', end).pipe(upstream);
  upstream.on('error', end).on('close', end).pipe(client);
});
server.listen(socketPath, () => process.stdout.write('ready\n'));
// The test that started this holds the other end of standard input.
process.stdin.on('end', () => process.exit(0)).resume();
