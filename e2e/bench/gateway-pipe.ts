import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';

/**
 * What the gateway is measured against: the proxy that one writes in Node without a second thought. Arguments:
 * the port to pass to, and the API key to send there. Tells its own port by IPC.
 */
const [port, apiKey] = process.argv.slice(2);

const server = createServer((req, res) => {
  const headers = { ...req.headers, authorization: `Bearer ${apiKey}` };
  const upstream = request(
    { host: '127.0.0.1', port, method: req.method, path: req.url, headers },
    (answer) => {
      res.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(res);
    },
  );
  upstream.on('error', () => res.destroy());
  res.on('close', () => upstream.destroy());
  req.pipe(upstream);
});
server.listen(0, '127.0.0.1', () => process.send?.({ port: (server.address() as AddressInfo).port }));
process.on('disconnect', () => process.exit(0));
