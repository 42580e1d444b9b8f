import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';

const fuseMark = 'dL7pKGdnNz796PbbjQWNKmHXBZaB9tsX';
/** As Electron ships them: 1 on, 0 off. */
const shippedFuses = '10110011';

/**
 * Makes a directory that electron-builder takes for Electron on Linux: the files that it looks for, and a program
 * with fuses. The program says what it is when somebody starts it.
 */
export function makeStandInDistribution(directory: string, version: string): void {
  mkdirSync(path.join(directory, 'resources'), { recursive: true });
  mkdirSync(path.join(directory, 'locales'), { recursive: true });
  const program = path.join(directory, 'electron');
  const fuses = Buffer.concat([
    Buffer.from(fuseMark, 'latin1'),
    Buffer.from([1, shippedFuses.length]),
    Buffer.from(shippedFuses, 'latin1'),
  ]);
  const script = '#!/bin/sh\necho "This is a stand-in for Electron." >&2\nexit 1\n';
  writeFileSync(program, Buffer.concat([Buffer.from(script), fuses, Buffer.from('\n')]));
  chmodSync(program, 0o755);
  for (const name of ['chrome-sandbox', 'chrome_crashpad_handler']) {
    writeFileSync(path.join(directory, name), script, { mode: 0o755 });
  }
  for (const name of ['libffmpeg.so', 'icudtl.dat', 'resources.pak', 'locales/en-US.pak', 'locales/de.pak']) {
    writeFileSync(path.join(directory, name), 'stand-in');
  }
  writeFileSync(path.join(directory, 'version'), version);
  writeFileSync(path.join(directory, 'LICENSE'), 'The licence of Electron stands here.\n');
  writeFileSync(path.join(directory, 'LICENSES.chromium.html'), 'The licences of Chromium stand here.\n');
  writeFileSync(path.join(directory, 'resources', 'default_app.asar'), emptyArchive());
}

/** An archive of Electron's form without a file in it: lengths, then the header as JSON. */
function emptyArchive(): Buffer {
  const header = Buffer.from('{"files":{}}');
  const lengths = Buffer.alloc(16);
  for (const [index, value] of [4, header.length + 8, header.length + 4, header.length].entries()) {
    lengths.writeUInt32LE(value, index * 4);
  }
  return Buffer.concat([lengths, header]);
}
