import { mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';

/** Libraries that programs are linked against; the name that CMake knows each by. */
const linked = ['ggml-base', 'ggml', 'llama-common', 'llama'];
const executableSection = 0x20000000;

/**
 * Writes a .def file for each DLL that programs are linked against: the packages ship DLLs without import
 * libraries, and the linker's own tool makes one from such a list.
 * @param {string} libraryDirectory where the DLLs are
 * @param {string} directory where `NAME.def` files go
 */
export function writeDefinitions(libraryDirectory, directory) {
  mkdirSync(directory, { recursive: true });
  for (const name of linked) {
    const found = readdirSync(libraryDirectory).filter(
      (file) => file === `${name}.dll` || (file.startsWith(`${name}.`) && file.endsWith('.dll')),
    );
    const dll = found[0];
    if (dll === undefined || found.length > 1) {
      throw new Error(`expected one ${name}[.*].dll in ${libraryDirectory}, found ${found.length}`);
    }
    const lines = readExports(readFileSync(path.join(libraryDirectory, dll))).map(
      (symbol) => `  ${symbol.name}${symbol.data ? ' DATA' : ''}`,
    );
    writeFileSync(
      path.join(directory, `${name}.def`),
      `LIBRARY "${dll}"\r\nEXPORTS\r\n${lines.join('\r\n')}\r\n`,
    );
  }
}

/**
 * The names that a 64-bit Windows DLL exports. An export outside of executable sections is data: calls to it make
 * no sense, so its import library entry must not look like a function.
 * Format: Microsoft's "PE Format" specification, sections "Optional Header" and "Export Directory Table".
 * @param {Buffer} image
 * @returns {{ name: string, data: boolean }[]}
 */
export function readExports(image) {
  const header = image.readUInt32LE(0x3c);
  if (image.toString('latin1', 0, 2) !== 'MZ' || image.readUInt32LE(header) !== 0x00004550) {
    throw new Error('this is not a Windows program or DLL');
  }
  const sectionCount = image.readUInt16LE(header + 6);
  const optional = header + 24;
  if (image.readUInt16LE(optional) !== 0x20b) throw new Error('this is not a 64-bit DLL');
  const sections = Array.from({ length: sectionCount }, (_, index) => {
    const at = optional + image.readUInt16LE(header + 20) + 40 * index;
    return {
      address: image.readUInt32LE(at + 12),
      bytes: Math.max(image.readUInt32LE(at + 8), image.readUInt32LE(at + 16)),
      offset: image.readUInt32LE(at + 20),
      executable: (image.readUInt32LE(at + 36) & executableSection) !== 0,
    };
  });
  const sectionAt = (address) => {
    const found = sections.find(
      (section) => address >= section.address && address < section.address + section.bytes,
    );
    if (found === undefined) throw new Error(`the DLL has no section at address ${address}`);
    return found;
  };
  const offsetOf = (address) => {
    const section = sectionAt(address);
    return address - section.address + section.offset;
  };
  const directoryAddress = image.readUInt32LE(optional + 112);
  const directoryBytes = image.readUInt32LE(optional + 116);
  if (directoryAddress === 0) return [];
  const directory = offsetOf(directoryAddress);
  const nameCount = image.readUInt32LE(directory + 24);
  const functions = offsetOf(image.readUInt32LE(directory + 28));
  const names = offsetOf(image.readUInt32LE(directory + 32));
  const ordinals = offsetOf(image.readUInt32LE(directory + 36));
  return Array.from({ length: nameCount }, (_, index) => {
    const start = offsetOf(image.readUInt32LE(names + 4 * index));
    const name = image.toString('latin1', start, image.indexOf(0, start));
    const address = image.readUInt32LE(functions + 4 * image.readUInt16LE(ordinals + 2 * index));
    // An address inside the directory is the name of a function in another DLL.
    const forwarded = address >= directoryAddress && address < directoryAddress + directoryBytes;
    return { name, data: !forwarded && !sectionAt(address).executable };
  });
}
