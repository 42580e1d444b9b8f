import { existsSync } from 'node:fs';
import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { makeIdentity } from '../../src-main/nodejs/transport/fixtures.ts';
import { startProcess } from '../support/managed-process.ts';
import { freePort } from '../support/ports.ts';
import { waitFor } from '../support/wait.ts';
import { isListening } from './tunnel-paths.ts';

export interface Nginx {
  /** `https://127.0.0.1:PORT/` */
  readonly url: string;
  /** Where it keeps what is put. */
  readonly root: string;
  close(): Promise<unknown>;
}

/** null: it is not installed (Debian package nginx-light). */
export function nginxProgram(): string | null {
  return (
    ['/usr/sbin/nginx', '/usr/local/sbin/nginx', '/usr/bin/nginx'].find((path) => existsSync(path)) ?? null
  );
}

/** nginx with TLS 1.3 that takes and gives files, as many workers as there are cores. */
export async function startNginx(program: string, directory: string): Promise<Nginx> {
  const root = join(directory, 'files');
  await mkdir(root, { recursive: true });
  for (const path of [directory, root]) await chmod(path, 0o755);
  const { keyPem, certPem } = await makeIdentity();
  await writeFile(join(directory, 'key.pem'), keyPem, { mode: 0o600 });
  await writeFile(join(directory, 'cert.pem'), certPem);
  const port = await freePort();
  const config = `
    daemon off; pid ${directory}/pid; error_log stderr error; worker_processes auto;
    ${process.getuid?.() === 0 ? 'user root;' : ''}
    events { worker_connections 64; }
    http {
      access_log off; sendfile on; client_max_body_size 0;
      client_body_temp_path ${directory}/body; proxy_temp_path ${directory}/proxy;
      fastcgi_temp_path ${directory}/fastcgi; uwsgi_temp_path ${directory}/uwsgi; scgi_temp_path ${directory}/scgi;
      server {
        listen 127.0.0.1:${port} ssl;
        ssl_certificate ${directory}/cert.pem; ssl_certificate_key ${directory}/key.pem; ssl_protocols TLSv1.3;
        root ${root};
        location / { dav_methods PUT; }
      }
    }`;
  const file = join(directory, 'nginx.conf');
  await writeFile(file, config);
  const server = startProcess({ label: 'nginx', argv: [program, '-p', directory, '-c', file] });
  await waitFor('nginx', () => isListening(port), 10_000);
  return { url: `https://127.0.0.1:${port}/`, root, close: () => server.stop() };
}
