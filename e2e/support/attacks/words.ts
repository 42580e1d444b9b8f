import { encodeFrame } from '../../../src-main/nodejs/transport/frames.ts';
import { PROTOCOL_VERSION } from '../../../src-main/shared/protocol/version.ts';

/** First words on each protocol of the cluster port, as its rightful user would say them. */
const protocol = PROTOCOL_VERSION;

export function frame(value: object): Buffer {
  return encodeFrame(JSON.stringify(value));
}

export const upgrade = Buffer.from(
  'GET /session HTTP/1.1\r\nHost: covey\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n' +
    'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n',
);

export const engine = (grant: string): Buffer =>
  Buffer.concat([frame({ protocol, target: 'engine', grant }), Buffer.from('GET /health HTTP/1.1\r\n\r\n')]);
export const pulse = (grant: string): Buffer => frame({ protocol, target: 'pulse', grant });
export const gateway = Buffer.concat([
  frame({ protocol, target: 'gateway' }),
  Buffer.from('GET /api/status HTTP/1.1\r\nHost: covey\r\n\r\n'),
]);
export const probe = frame({ protocol, target: 'probe' });
export const relay = (peer: string, token: string): Buffer =>
  frame({ protocol, target: 'relay', token, peer });
export const reverse = (token: string): Buffer => frame({ protocol, target: 'reverse', token });
export const joinString = (secret: string, name = 'mallory'): Buffer =>
  frame({ type: 'join-string', protocol, name, secret });

/** What everybody tries first, by protocol. */
export function firstWords(alpn: string | null): Buffer {
  switch (alpn) {
    case 'covey-session':
      return upgrade;
    case 'covey-tunnel':
      return engine('0'.repeat(64));
    case 'covey-http':
      return gateway;
    case 'covey-join':
      return joinString('0'.repeat(64));
    default:
      return Buffer.from('GET / HTTP/1.1\r\nHost: x\r\n\r\n');
  }
}
