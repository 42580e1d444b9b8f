import { Worker } from 'bullmq';

/** One of the worker processes of a BullMQ queue: jobs that do nothing. Arguments: port of Redis, queue. */
const [port, queue] = process.argv.slice(2);
if (port === undefined || queue === undefined) throw new Error('arguments: port of Redis, name of the queue');

const worker = new Worker(queue, () => Promise.resolve(null), {
  connection: { host: '127.0.0.1', port: Number(port), maxRetriesPerRequest: null },
  concurrency: 50,
});
worker.on('error', (error) => process.stderr.write(`${error.message}\n`));
await worker.waitUntilReady();
process.send?.('ready');
process.on('disconnect', () => process.exit(0));
