import { closeSync, openSync, readFileSync, readSync } from 'node:fs';
import { join } from 'node:path';

/**
 * Electron's archive: a Chromium pickle with the length of the header, the header as JSON (a tree of `files` with
 * `size`, `offset` as text, or `unpacked`: beside the archive), then the contents one after the other.
 * @param {string} file
 * @returns {{ files: Map<string, { size: number, unpacked: boolean, read: () => Buffer }> }}
 */
export function readAsar(file) {
  const handle = openSync(file, 'r');
  const readAt = (/** @type {number} */ position, /** @type {number} */ length) => {
    const buffer = Buffer.alloc(length);
    const got = readSync(handle, buffer, 0, length, position);
    if (got !== length) throw new Error(`${file} ends in the middle of a file`);
    return buffer;
  };
  try {
    const sizes = readAt(0, 16);
    const headerBytes = sizes.readUInt32LE(4);
    const text = readAt(16, sizes.readUInt32LE(12)).toString('utf8');
    const contentAt = 8 + headerBytes;
    const files = new Map();
    const walk = (tree, prefix) => {
      for (const [name, entry] of Object.entries(tree.files)) {
        const path = prefix + name;
        if (entry.files !== undefined) {
          walk(entry, `${path}/`);
          continue;
        }
        const unpacked = entry.unpacked === true;
        const content = unpacked
          ? readFileSync(join(`${file}.unpacked`, path))
          : readAt(contentAt + Number(entry.offset), entry.size);
        files.set(path, { size: entry.size, unpacked, read: () => content });
      }
    };
    walk(JSON.parse(text), '');
    return { files };
  } finally {
    closeSync(handle);
  }
}
