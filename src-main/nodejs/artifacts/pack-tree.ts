import { createReadStream } from 'node:fs';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import tar from 'tar-stream';
import type { TreeManifest } from '#shared/domain/artifact.ts';
import type { ArtifactId } from '#shared/lib/ids.ts';

/** A tree as a tar stream: its files and directories in order, without owners and times. */
export function packTree(manifest: TreeManifest, pathOf: (file: ArtifactId) => string): Readable {
  const pack = tar.pack();
  const mtime = new Date(0);
  const write = async (): Promise<void> => {
    for (const entry of manifest.entries) {
      if (entry.type === 'directory') {
        pack.entry({ name: entry.path, type: 'directory', mode: 0o755, mtime });
        continue;
      }
      const mode = entry.executable ? 0o755 : 0o644;
      const sink = pack.entry({ name: entry.path, size: entry.bytes, mode, mtime });
      await pipeline(createReadStream(pathOf(entry.sha256)), sink);
    }
    pack.finalize();
  };
  write().catch((error: unknown) => pack.destroy(error as Error));
  return Readable.from(pack);
}
