import { resolve } from 'node:path';
import type { CliIo } from './io.ts';

/**
 * A relative path that names a file here becomes absolute: machines know absolute paths and library names only.
 * Anything else stays as it is.
 */
export function localPath(io: CliIo, model: string): string {
  const looksLikeFile = /^\.{1,2}[/\\]/.test(model) || /\.gguf$/i.test(model);
  const absolute = resolve(io.workingDirectory, model);
  return looksLikeFile && io.fileExists(absolute) ? absolute : model;
}
