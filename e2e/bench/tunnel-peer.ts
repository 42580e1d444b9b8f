import { createServer } from 'node:net';

/**
 * The engine's stand-in at the far end of a tunnel: the first byte of a connection says `E` (send everything
 * back) or `S` and 8 bytes of length (take that many bytes, then answer with one). Forked; reports its port.
 */
const server = createServer({ noDelay: true }, (socket) => {
  let remaining = -1;
  let mode = '';
  socket.on('error', () => socket.destroy());
  socket.on('data', (chunk) => {
    if (mode === 'E') {
      socket.write(chunk);
    } else if (mode === 'S') {
      remaining -= chunk.length;
      if (remaining === 0) socket.write('.');
    } else {
      mode = String.fromCharCode(chunk[0] ?? 0);
      if (mode === 'S') {
        remaining = Number(chunk.readBigUInt64BE(1)) - (chunk.length - 9);
        if (remaining === 0) socket.write('.');
      } else if (chunk.length > 1) {
        socket.write(chunk.subarray(1));
      }
    }
  });
});
server.listen(0, '127.0.0.1', () => {
  const address = server.address();
  process.send?.(typeof address === 'object' ? address?.port : null);
});
process.on('disconnect', () => process.exit(0));
