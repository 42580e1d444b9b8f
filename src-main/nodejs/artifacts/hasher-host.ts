import type { HasherCommand } from '#shared/host/artifact-hasher.ts';
import { parentPort } from '../process-host/parent-port.ts';
import { createHasherWork } from './hasher-work.ts';

/** Entry of the process that reads and hashes what is too much for the main process. It ends with its parent. */
const port = parentPort();
const work = createHasherWork((event) => port.send(event));
port.onMessage((message) => work.handle(message as HasherCommand));
port.onDisconnect(() => process.exit(0));

// A signal to the whole group reaches the main process too, which ends us in its own time.
process.on('SIGINT', () => undefined);
process.on('SIGTERM', () => undefined);
