import { EventEmitter } from 'node:events';
import { existsSync, rmSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import path from 'node:path';

const checkout = path.resolve(import.meta.dirname, '..', '..', '..');

/** `app`: one instance per profile (a socket in it), paths, and the events of a life. */
class App extends EventEmitter {
  readonly isPackaged = process.env['COVEY_STAND_IN_INSTALLED'] === '1';
  readonly loginItems: object[] = [];
  sandboxed = false;
  userData = '';
  private becomeReady: () => void = () => undefined;
  private readonly ready = new Promise<void>((resolve) => {
    this.becomeReady = resolve;
  });

  setPath(name: string, directory: string): void {
    if (!existsSync(directory)) throw new Error(`${directory} does not exist`);
    if (name === 'userData') this.userData = directory;
  }
  getAppPath(): string {
    return checkout;
  }
  enableSandbox(): void {
    this.sandboxed = true;
  }
  setAppUserModelId(): void {}
  setAsDefaultProtocolClient(): void {}
  setLoginItemSettings(settings: object): void {
    this.loginItems.push(settings);
  }
  /** Electron answers at once; here the other instance is seen by its socket and told a moment later. */
  requestSingleInstanceLock(): boolean {
    const socket = path.join(this.userData, 'instance.sock');
    if (existsSync(socket)) {
      const other = connect(socket, () => other.end(JSON.stringify(process.argv)));
      other.on('error', () => rmSync(socket, { force: true }));
      return false;
    }
    const server = createServer((peer) => {
      let text = '';
      peer.on('data', (chunk) => (text += chunk.toString()));
      peer.on('end', () => this.emit('second-instance', {}, JSON.parse(text) as string[]));
    });
    server.listen(socket);
    server.unref();
    process.on('exit', () => rmSync(socket, { force: true }));
    setImmediate(() => this.becomeReady());
    return true;
  }
  whenReady(): Promise<void> {
    return this.ready;
  }
  quit(): void {
    let prevented = false;
    this.emit('before-quit', { preventDefault: () => (prevented = true) });
    // What the other instance is told has to leave first.
    if (!prevented) setTimeout(() => process.exit(0), 300);
  }
  exit(code: number): void {
    process.exit(code);
  }
}

export const app = new App();
if (app.isPackaged) Object.assign(process, { resourcesPath: path.join(checkout, 'resources') });
