import { readFileSync } from 'node:fs';

/** What Electron's program carries before its fuses; after it come the version and the number of them. */
export const fuseMark = 'dL7pKGdnNz796PbbjQWNKmHXBZaB9tsX';

/** In the order of Electron's wire. */
const names = [
  'runAsNode',
  'enableCookieEncryption',
  'enableNodeOptionsEnvironmentVariable',
  'enableNodeCliInspectArguments',
  'enableEmbeddedAsarIntegrityValidation',
  'onlyLoadAppFromAsar',
  'loadBrowserProcessSpecificV8Snapshot',
  'grantFileProtocolExtraPrivileges',
];

/** How they have to be: the `covey` command needs the first, nobody the second, third and last ones. */
export const wantedFuses = {
  runAsNode: true,
  enableCookieEncryption: true,
  enableNodeOptionsEnvironmentVariable: false,
  enableNodeCliInspectArguments: false,
  enableEmbeddedAsarIntegrityValidation: true,
  onlyLoadAppFromAsar: true,
  grantFileProtocolExtraPrivileges: false,
};

/**
 * Reads the fuses as they stand in a program.
 * @returns {Record<string, boolean>} those that are neither on nor off are left out
 */
export function readFuses(file) {
  const content = readFileSync(file);
  const at = content.indexOf(fuseMark);
  if (at < 0) throw new Error(`${file} has no fuses: it is not Electron`);
  const count = content[at + fuseMark.length + 1] ?? 0;
  /** @type {Record<string, boolean>} */
  const fuses = {};
  for (const [index, name] of names.slice(0, count).entries()) {
    const value = content[at + fuseMark.length + 2 + index];
    if (value === 0x30 || value === 0x31) fuses[name] = value === 0x31;
  }
  return fuses;
}
