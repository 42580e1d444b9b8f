import { ApiFailure, endSession, overview, redeem } from './api.ts';
import { element, renderOverview } from './render.ts';

/**
 * Where a one-time link ends. Its code is in the fragment, which no server sees: it is taken out of the address
 * bar and the history first and then exchanged, once, for a login. The login is kept in `sessionStorage`: it ends
 * with the tab, and no other site and no other tab gets it.
 */
const storageKey = 'covey.session';
const refreshMs = 3_000;
let timer: ReturnType<typeof setTimeout> | undefined;

const storedToken = (): string | null => sessionStorage.getItem(storageKey);

function takeCode(): string | null {
  const code = /^#code=([\w-]{1,64})$/.exec(location.hash)?.[1] ?? null;
  if (location.hash !== '') history.replaceState(null, '', location.pathname);
  return code;
}

async function logIn(code: string): Promise<void> {
  const { token } = await redeem(code);
  sessionStorage.setItem(storageKey, token);
}

function show(state: 'logged-in' | 'logged-out'): void {
  element('logged-in').hidden = state !== 'logged-in';
  element('logged-out').hidden = state !== 'logged-out';
  element('logout').hidden = state !== 'logged-in';
}

function say(sentence: string | null): void {
  const notice = element('notice');
  notice.hidden = sentence === null;
  if (notice.textContent !== (sentence ?? '')) notice.textContent = sentence;
}

function logOut(sentence: string): void {
  clearTimeout(timer);
  sessionStorage.removeItem(storageKey);
  show('logged-out');
  say(sentence);
}

/** Shows the covey, and again every few seconds while somebody looks. */
async function refresh(): Promise<void> {
  clearTimeout(timer);
  const token = storedToken();
  if (token === null) return show('logged-out');
  try {
    const seen = await overview(token);
    if (storedToken() !== token) return;
    renderOverview(seen);
    show('logged-in');
    say(null);
  } catch (error) {
    if (error instanceof ApiFailure && error.code === 'token_invalid') {
      return logOut('Your login has ended.');
    }
    say(error instanceof Error ? error.message : String(error));
  }
  if (document.visibilityState === 'visible') timer = setTimeout(() => void refresh(), refreshMs);
}

async function begin(): Promise<void> {
  const code = takeCode();
  if (code !== null) {
    try {
      await logIn(code);
    } catch (error) {
      show('logged-out');
      return say(error instanceof Error ? error.message : String(error));
    }
  }
  await refresh();
}

element('login').addEventListener('submit', (event) => {
  event.preventDefault();
  const input = element<HTMLInputElement>('code');
  const code = input.value.trim().replace(/^.*#code=/, '');
  input.value = '';
  void logIn(code).then(refresh, (error: unknown) =>
    say(error instanceof Error ? error.message : String(error)),
  );
});
element('logout').addEventListener('click', () => {
  const token = storedToken();
  logOut('You are logged out.');
  // The login ends by itself too, should the controller not hear of it.
  if (token !== null) void endSession(token).catch(() => undefined);
});
document.addEventListener('visibilitychange', () => {
  if (document.visibilityState === 'visible' && storedToken() !== null) void refresh();
});
addEventListener('hashchange', () => void begin());
void begin();
