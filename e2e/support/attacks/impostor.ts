import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { createDiscovery } from '../../../src-main/nodejs/discovery/discovery.ts';
import { encodeAnnouncement, exampleAnnouncement } from '../../../src-main/nodejs/discovery/fixtures.ts';
import type { BootId } from '../../../src-main/shared/lib/ids.ts';
import { silentLogger } from '../../../src-main/nodejs/transport/fixtures.ts';

/**
 * Announces itself as the controller that it hears: `impostor.ts ADDRESS`. First listens for a controller, then sends
 * its announcement again and again, name, node id, nonce and mark as they were heard, with ADDRESS as the place.
 * Prints `heard` with the node id when it begins.
 */
const [address = ''] = process.argv.slice(2);
const discovery = createDiscovery({ logger: silentLogger, clock: { now: () => Date.now() } });
const find = () => discovery.peers().find((peer) => peer.role === 'controller');
while (!find()) await new Promise((resolve) => setTimeout(resolve, 100));
const heard = find();
await discovery.close();
if (!heard) throw new Error('no controller was heard');

const socket = createSocket({ type: 'udp4', reuseAddr: true });
socket.bind(5353, '0.0.0.0');
await once(socket, 'listening');
socket.setMulticastInterface(address);
const { nodeId, name, version, nonce, mark } = heard;
const bootIds = [heard.bootId, 'e'.repeat(32) as BootId];
const timer = setInterval(() => {
  for (const bootId of bootIds) {
    const said = exampleAnnouncement({
      role: 'controller',
      nodeId,
      bootId,
      name,
      version,
      nonce,
      mark,
      port: 7879,
    });
    socket.send(encodeAnnouncement(said, [address]), 5353, '224.0.0.251', () => undefined);
  }
}, 200);
process.stdout.write(`${JSON.stringify({ heard: nodeId, mark })}\n`);
process.stdin.on('end', () => {
  clearInterval(timer);
  socket.close();
  process.exit(0);
});
process.stdin.resume();
