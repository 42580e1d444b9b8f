import { useSyncExternalStore } from 'react';

/** Pages live behind the `#`: a page of any server that serves the files works without rules for its paths. */
export interface Place {
  /** First segment: `overview`. */
  readonly page: string;
  /** What follows, decoded: the machine, the deployment. */
  readonly rest: readonly string[];
  readonly query: URLSearchParams;
}

/** `hrefTo('machines', 'ab12')` is `#/machines/ab12`. */
export function hrefTo(page: string, ...rest: readonly string[]): string {
  return `#/${[page, ...rest].map(encodeURIComponent).join('/')}`;
}

export function navigate(href: string): void {
  location.hash = href;
}

export function readPlace(hash: string): Place {
  const [path = '', search = ''] = hash.replace(/^#\/?/, '').split('?', 2);
  const [page = '', ...rest] = path.split('/').map(decode);
  return { page, rest: rest.filter((part) => part !== ''), query: new URLSearchParams(search) };
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

let known = { hash: '', place: readPlace('') };

function currentPlace(): Place {
  if (known.hash !== location.hash) known = { hash: location.hash, place: readPlace(location.hash) };
  return known.place;
}

function subscribe(listener: () => void): () => void {
  addEventListener('hashchange', listener);
  return () => removeEventListener('hashchange', listener);
}

export function usePlace(): Place {
  return useSyncExternalStore(subscribe, currentPlace);
}
