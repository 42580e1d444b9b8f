import { existsSync, readFileSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { inRoot, root } from './paths.mjs';

/** `file: link` for every relative link of a documentation page that leads nowhere. */
export function brokenLinks() {
  const pages = ['README.md', 'CHANGELOG.md', ...readdirSync(inRoot('docs')).map((name) => `docs/${name}`)];
  return pages
    .filter((page) => page.endsWith('.md'))
    .flatMap((page) => {
      const links = readFileSync(path.join(root, page), 'utf8').matchAll(/\]\(([^)\s]+)\)/g);
      return [...links]
        .map((match) => (match[1] ?? '').split('#')[0] ?? '')
        .filter((link) => link !== '' && !/^[a-z]+:/i.test(link))
        .filter((link) => !existsSync(inRoot(path.dirname(page), link)))
        .map((link) => `${page}: ${link}`);
    });
}
