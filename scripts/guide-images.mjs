import { mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { openBrowser } from '../e2e/browser/browser.ts';
import { runScript, say, ScriptError } from './lib/console.mjs';
import { inRoot } from './lib/paths.mjs';

/**
 * `npm run guide-images`: makes the pictures of docs/guide.md from those that the browser and desktop tests left in
 * build/screenshots. Cut to what the guide speaks of, no wider than a page of text, and small.
 */
const widest = 960;
const maxBytes = 120_000;

/**
 * @typedef {{ name: string, from: string, cut: [number, number, number, number] }} Picture `cut`: left, top, width
 *   and height in pixels of the screenshot
 */

/** @type {Picture[]} */
const pictures = [
  { name: 'first-start', from: 'this-computer-first-start-light-1200', cut: [0, 0, 800, 500] },
  { name: 'this-computer', from: 'this-computer-member-light-1200', cut: [0, 0, 1200, 722] },
  { name: 'overview', from: 'overview-1280-light', cut: [0, 0, 1280, 898] },
  { name: 'asks-to-join', from: 'machines-pending-1280-light', cut: [0, 0, 1280, 776] },
  { name: 'load', from: 'load-dialog-1280-light', cut: [238, 144, 804, 572] },
  { name: 'loaded', from: 'models-1280-light', cut: [0, 0, 1280, 380] },
  { name: 'playground', from: 'playground-1280-light', cut: [0, 0, 1280, 804] },
  { name: 'api', from: 'api-1280-light', cut: [0, 0, 1280, 562] },
  { name: 'job-running', from: 'job-running-1280-light', cut: [208, 0, 1072, 916] },
  { name: 'artifacts', from: 'artifacts-1280-light', cut: [208, 0, 1072, 880] },
  { name: 'machine-lost', from: 'models-lost-1280-light', cut: [0, 0, 1280, 430] },
  { name: 'lend-rules', from: 'settings-1280-light', cut: [224, 80, 524, 1044] },
];

/**
 * In the page of a browser: one picture as WebP, base64.
 * @param {{ png: string, cut: Picture['cut'], widest: number }} task
 */
async function draw({ png, cut: [left, top, width, height], widest: limit }) {
  // Only browsers have these, and scripts are checked without a browser's types.
  const { createImageBitmap, OffscreenCanvas } = /** @type {any} */ (globalThis);
  const file = await (await fetch(`data:image/png;base64,${png}`)).blob();
  const scale = Math.min(1, limit / width);
  const size = { resizeWidth: Math.round(width * scale), resizeHeight: Math.round(height * scale) };
  const bitmap = await createImageBitmap(file, left, top, width, height, { ...size, resizeQuality: 'high' });
  const canvas = new OffscreenCanvas(bitmap.width, bitmap.height);
  canvas.getContext('2d')?.drawImage(bitmap, 0, 0);
  const made = new Uint8Array(
    await (await canvas.convertToBlob({ type: 'image/webp', quality: 0.9 })).arrayBuffer(),
  );
  return btoa(Array.from(made, (byte) => String.fromCharCode(byte)).join(''));
}

await runScript(async () => {
  const sources = pictures.map(({ from }) => inRoot('build', 'screenshots', `${from}.png`));
  const missing = sources.find((file) => statSync(file, { throwIfNoEntry: false }) === undefined);
  if (missing !== undefined) {
    throw new ScriptError(
      `${missing} is not there.`,
      'Run "npm test -- cluster -- e2e/browser e2e/desktop" first.',
    );
  }
  mkdirSync(inRoot('docs', 'images'), { recursive: true });
  const { context, close } = await openBrowser();
  try {
    const page = await context.newPage();
    for (const [index, { name, cut }] of pictures.entries()) {
      const png = readFileSync(sources[index] ?? '').toString('base64');
      const picture = Buffer.from(await page.evaluate(draw, { png, cut, widest }), 'base64');
      if (picture.length > maxBytes) {
        throw new ScriptError(
          `${name} takes ${picture.length} bytes, ${maxBytes} are allowed.`,
          'Cut it closer.',
        );
      }
      writeFileSync(inRoot('docs', 'images', `${name}.webp`), picture);
      say(`docs/images/${name}.webp: ${Math.round(picture.length / 1000)} kB`);
    }
  } finally {
    await close();
  }
});
