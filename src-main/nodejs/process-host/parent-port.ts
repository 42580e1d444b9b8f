/** The child's end of the channel to its parent, whichever kind of child this process is. */
export interface ParentPort {
  send(message: unknown): void;
  onMessage(listener: (message: unknown) => void): void;
  /** The parent is gone: end everything and exit. */
  onDisconnect(listener: () => void): void;
}

interface UtilityPort {
  postMessage(message: unknown): void;
  on(event: 'message', listener: (event: { data: unknown }) => void): void;
  on(event: 'close', listener: () => void): void;
}

/**
 * Electron gives utility processes `process.parentPort`; `child_process.fork` gives `process.send`.
 * Throws when this process has no parent channel: an entry file was started by hand.
 */
export function parentPort(): ParentPort {
  const utility = (process as unknown as { parentPort?: UtilityPort }).parentPort;
  if (utility) {
    return {
      send: (message) => utility.postMessage(message),
      onMessage: (listener) => utility.on('message', (event) => listener(event.data)),
      onDisconnect: (listener) => utility.on('close', listener),
    };
  }
  if (!process.send) throw new Error('this program is started by Covey and has no use of its own');
  return {
    send: (message) => {
      if (process.connected) process.send?.(message, () => undefined);
    },
    onMessage: (listener) => process.on('message', listener),
    onDisconnect: (listener) => process.on('disconnect', listener),
  };
}
