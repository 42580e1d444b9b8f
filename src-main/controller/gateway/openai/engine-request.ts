import { Buffer } from 'node:buffer';

/**
 * The request as the engine gets it: our own head, so that nothing of the client's (credentials, framing,
 * encodings) reaches it, and the body's bytes unchanged.
 * @param path one of the paths that we forward, never the client's own text
 */
export function engineRequest(path: string, apiKey: string, body: readonly Buffer[]): Buffer[] {
  const bytes = body.reduce((sum, piece) => sum + piece.length, 0);
  const head =
    `POST ${path} HTTP/1.1\r\n` +
    'Host: 127.0.0.1\r\n' +
    `Authorization: Bearer ${apiKey}\r\n` +
    'Content-Type: application/json\r\n' +
    `Content-Length: ${bytes}\r\n` +
    // The engine closes at the end of a stream whatever it says; so a connection serves one request.
    'Connection: close\r\n\r\n';
  return [Buffer.from(head, 'latin1'), ...body];
}
