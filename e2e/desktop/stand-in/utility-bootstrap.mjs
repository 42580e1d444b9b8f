import { EventEmitter } from 'node:events';

/** Preloaded into a child: gives it `process.parentPort` over the channel of `child_process`, and no `process.send`. */
const port = new EventEmitter();
const send = process.send?.bind(process);
const waiting = [];

process.on('message', (data) => {
  if (port.listenerCount('message') === 0) waiting.push(data);
  else port.emit('message', { data });
});
process.on('disconnect', () => process.exit(0));
port.on('newListener', (event) => {
  if (event !== 'message') return;
  setImmediate(() => {
    for (const data of waiting.splice(0)) port.emit('message', { data });
  });
});
Object.assign(port, {
  postMessage: (message) => (process.connected ? send?.(message, () => undefined) : undefined),
});
process.parentPort = port;
process.send = undefined;
