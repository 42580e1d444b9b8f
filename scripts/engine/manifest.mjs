import { createHash } from 'node:crypto';
import { createReadStream, readFileSync } from 'node:fs';
import path from 'node:path';
import { pipeline } from 'node:stream/promises';
import { formatVersion } from './inputs.mjs';

/**
 * `manifest.json` of an engine directory. src-main/nodejs/engine-directory.ts reads it in the product.
 * @typedef {object} Manifest
 * @property {number} formatVersion
 * @property {string} buildId
 * @property {string} llamaTag
 * @property {string} nodeLlamaCppVersion
 * @property {string} sourceCommit
 * @property {string} rpcProtocolVersion `major.minor.patch`
 * @property {string} platform as `process.platform`
 * @property {string} arch as `process.arch`
 * @property {string} compiler name and version
 * @property {{ name: string, bytes: number, sha256: string }[]} files all but the manifest itself
 */

/**
 * @param {string} directory
 * @returns {Manifest | string} a string says what is wrong with it
 */
export function readManifest(directory) {
  let manifest;
  try {
    manifest = JSON.parse(readFileSync(path.join(directory, 'manifest.json'), 'utf8'));
  } catch {
    return 'has no readable manifest.json';
  }
  if (manifest?.formatVersion !== formatVersion) return 'has a manifest of another format';
  const files = manifest.files;
  const whole =
    Array.isArray(files) &&
    files.length > 0 &&
    files.every(
      (file) =>
        typeof file?.name === 'string' &&
        path.basename(file.name) === file.name &&
        Number.isSafeInteger(file.bytes) &&
        /^[0-9a-f]{64}$/.test(file.sha256),
    );
  return whole ? manifest : 'has a manifest whose list of files does not read';
}

/** SHA-256 of a file, in hex. */
export async function hashFile(file) {
  const hash = createHash('sha256');
  await pipeline(createReadStream(file, { highWaterMark: 1 << 20 }), hash);
  return hash.digest('hex');
}
