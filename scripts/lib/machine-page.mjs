import path from 'node:path';
import { ScriptError } from './console.mjs';
import { root } from './paths.mjs';

const source = 'src-renderer/machine';
const files = ['index.html', 'machine.css', 'machine.ts'];

/**
 * The page of one machine itself, as files below dist/machine/. Small, and without a framework: it has to work when
 * everything else is away.
 * @returns {Promise<{ path: string, contents: Uint8Array }[]>}
 */
export async function buildMachinePage() {
  const { build, stop } = await import('esbuild');
  try {
    const { outputFiles } = await build({
      absWorkingDir: root,
      entryPoints: files.map((name) => path.posix.join(source, name)),
      outdir: 'dist/machine',
      outbase: source,
      bundle: true,
      write: false,
      format: 'esm',
      platform: 'browser',
      target: 'es2023',
      loader: { '.html': 'copy' },
      legalComments: 'none',
      minify: true,
      logLevel: 'silent',
    });
    return outputFiles;
  } catch (error) {
    throw new ScriptError('The build of the page of this machine failed.', String(error));
  } finally {
    await stop();
  }
}
