declare global {
  /** Read by a library that locks the page's scrolling behind dialogs, for the style element it makes. */
  var __webpack_nonce__: string | undefined;
}

/** With which this page may make style elements: the server says it in the page itself. */
export function styleNonce(): string {
  const nonce = document.getElementById('style-nonce')?.nonce ?? '';
  globalThis.__webpack_nonce__ = nonce;
  return nonce;
}
