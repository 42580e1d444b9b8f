import type { SettingsView } from '#shared/api/access.ts';
import type { JoinView, StartJoinBody } from '#shared/api/joining.ts';
import type { DiscoveryView, SelfView } from '#shared/api/self.ts';

/** The routes about this machine itself, with the right of its owner. Each rejects with a sentence. */
export interface LocalApi {
  self(): Promise<SelfView>;
  settings(): Promise<SettingsView>;
  setSettings(patch: object): Promise<SettingsView>;
  /** Tries every address that was announced, so it takes seconds. */
  discovery(): Promise<DiscoveryView>;
  join(body: StartJoinBody): Promise<JoinView>;
  confirmJoin(): Promise<JoinView>;
  cancelJoin(): Promise<JoinView>;
  leave(): Promise<SelfView>;
}

const timeoutMs = 15_000;

/** The API is this program's own: it answers in the shape that the same build has typed. */
export function localApi(token: string): LocalApi {
  const call = async <T>(method: string, path: string, body?: object): Promise<T> => {
    let answer: Response;
    try {
      answer = await fetch(path, {
        method,
        headers: {
          authorization: `Bearer ${token}`,
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        signal: AbortSignal.timeout(timeoutMs),
      });
    } catch {
      throw new Error('Covey does not answer on this computer.');
    }
    const value = (await answer.json().catch(() => ({}))) as { error?: { message?: string } };
    if (!answer.ok) throw new Error(value.error?.message ?? `Covey answered ${answer.status}.`);
    return value as T;
  };
  return {
    self: () => call('GET', '/api/self'),
    settings: () => call('GET', '/api/settings'),
    setSettings: (patch) => call('PATCH', '/api/settings', patch),
    discovery: () => call('GET', '/api/discovery'),
    join: (body) => call('POST', '/api/self/join', body),
    confirmJoin: () => call('POST', '/api/self/join/confirm'),
    cancelJoin: () => call('DELETE', '/api/self/join'),
    leave: () => call('POST', '/api/self/leave'),
  };
}
