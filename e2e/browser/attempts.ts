/**
 * What a page of another site can try against an address on this machine. Runs in the page, so it stands alone:
 * nothing outside of the function exists there. `script`: the path of a script of ours. Each result is `blocked`, or what was got.
 */
export async function tryEverything([target, script]: readonly [target: string, script: string]): Promise<
  Record<string, string>
> {
  const results: Record<string, string> = {};
  const within = <T>(promise: Promise<T>): Promise<T> =>
    Promise.race([
      promise,
      new Promise<never>((_resolve, reject) => setTimeout(() => reject(new Error('silence')), 5_000)),
    ]);
  const attempt = async (name: string, action: () => Promise<string>): Promise<void> => {
    results[name] = await within(action()).catch(() => 'blocked');
  };
  const body = JSON.stringify({ name: 'stolen', scope: 'admin' });
  const read = async (path: string, init?: RequestInit): Promise<string> =>
    (await fetch(target + path, init)).text();
  const opaque = async (path: string, init: RequestInit): Promise<string> => {
    const response = await fetch(target + path, { mode: 'no-cors', ...init });
    const text = await response.text().catch(() => '');
    return response.type === 'opaque' && text === '' ? 'blocked' : `read ${text}`;
  };
  const loads = (make: () => HTMLElement): Promise<string> =>
    new Promise((resolve) => {
      const element = make();
      element.onload = () => resolve('loaded');
      element.onerror = () => resolve('blocked');
      document.body.append(element);
    });
  const tag = (name: string, attributes: Record<string, string>): HTMLElement => {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    return element;
  };

  await attempt('read /api', () => read('/api/status'));
  await attempt('read /api with a token', () =>
    read('/api/status', { headers: { authorization: 'Bearer x' }, credentials: 'include' }),
  );
  await attempt('read /v1', () => read('/v1/models'));
  await attempt('read /healthz', () => read('/healthz'));
  await attempt('post JSON', () =>
    read('/api/keys', { method: 'POST', body, headers: { 'content-type': 'application/json' } }),
  );
  await attempt('delete', () => read('/api/nodes/x', { method: 'DELETE' }));
  await attempt('post text without asking', () =>
    opaque('/api/keys', { method: 'POST', body, credentials: 'include' }),
  );
  await attempt('post to a model without asking', () =>
    opaque('/v1/completions', { method: 'POST', body: JSON.stringify({ model: 'm', prompt: 'x' }) }),
  );
  await attempt('read without asking', () => opaque('/api/status', { credentials: 'include' }));
  await attempt('redeem a code without asking', () =>
    opaque('/api/sessions', { method: 'POST', body: JSON.stringify({ code: 'x' }) }),
  );
  await attempt('beacon', async () => {
    navigator.sendBeacon(`${target}/api/keys`, new Blob([body], { type: 'text/plain' }));
    return 'blocked';
  });
  await attempt('image', () => loads(() => tag('img', { src: `${target}/api/status` })));
  await attempt('image of ours', () => loads(() => tag('img', { src: `${target}/dashboard/icon.svg` })));
  await attempt('script', () => loads(() => tag('script', { src: `${target}/v1/models` })));
  await attempt('script of ours', () => loads(() => tag('script', { src: target + script })));
  await attempt('style', () => loads(() => tag('link', { rel: 'stylesheet', href: `${target}/api/status` })));
  await attempt(
    'WebSocket',
    () =>
      new Promise((resolve) => {
        const socket = new WebSocket(`${target.replace('http', 'ws')}/api/events`);
        socket.onopen = () => resolve('open');
        socket.onerror = () => resolve('blocked');
      }),
  );
  await attempt(
    'EventSource',
    () =>
      new Promise((resolve) => {
        const source = new EventSource(`${target}/api/events`, { withCredentials: true });
        source.onmessage = () => resolve('message');
        source.onerror = () => {
          source.close();
          resolve('blocked');
        };
      }),
  );
  await attempt('frame', async () => {
    const frame = tag('iframe', { src: `${target}/` }) as HTMLIFrameElement;
    await loads(() => frame);
    return frame.contentDocument === null ? 'blocked' : 'read';
  });
  for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data']) {
    await attempt(`form ${type}`, async () => {
      const frame = tag('iframe', { name: `into-${type}` }) as HTMLIFrameElement;
      const form = tag('form', {
        method: 'post',
        enctype: type,
        target: `into-${type}`,
        action: `${target}/api/keys`,
      });
      // As text/plain the field's name and value together are JSON.
      form.append(tag('input', { name: '{"name":"stolen","scope":"admin","x":"', value: '"}' }));
      document.body.append(frame, form);
      const answered = new Promise((resolve) => (frame.onload = resolve));
      (form as HTMLFormElement).submit();
      await answered;
      return frame.contentDocument === null ? 'blocked' : 'read';
    });
  }
  return results;
}
