import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { runScript, say } from './lib/console.mjs';
import { icns, ico, png } from './lib/image-files.mjs';
import { inRoot } from './lib/paths.mjs';

/**
 * `node scripts/draw-icons.mjs`: draws the pictures in resources/ anew. Three machines that are one: discs on the
 * corners of a triangle, joined by lines. Everything is computed, so every size is sharp and there is no source
 * file in a format of its own.
 */
/** @type {[number, number][]} */
const corners = [
  [0.5, 0.26],
  [0.25, 0.7],
  [0.75, 0.7],
];
const samples = 4;

/** Distance from a point to the segment between two others. */
function toSegment(x, y, [ax, ay], [bx, by]) {
  const along = ((x - ax) * (bx - ax) + (y - ay) * (by - ay)) / ((bx - ax) ** 2 + (by - ay) ** 2);
  const clamped = Math.min(1, Math.max(0, along));
  return Math.hypot(x - ax - clamped * (bx - ax), y - ay - clamped * (by - ay));
}

/** Whether a point of the unit square belongs to the mark. */
function inMark(x, y, { disc, line, scale }) {
  const u = (x - 0.5) / scale + 0.5;
  const v = (y - 0.5) / scale + 0.5;
  if (corners.some(([cx, cy]) => Math.hypot(u - cx, v - cy) < disc)) return true;
  return corners.some((corner, index) => toSegment(u, v, corner, corners[(index + 1) % 3] ?? corner) < line);
}

function inRoundedSquare(x, y, margin, radius) {
  const dx = Math.max(0, Math.abs(x - 0.5) - (0.5 - margin - radius));
  const dy = Math.max(0, Math.abs(y - 0.5) - (0.5 - margin - radius));
  return Math.hypot(dx, dy) < radius;
}

/** @param paint [r, g, b, a] 0..255 of a point of the unit square; each pixel is the mean of 16 points */
function draw(size, paint) {
  const pixels = new Uint8Array(size * size * 4);
  for (let row = 0; row < size; row += 1) {
    for (let column = 0; column < size; column += 1) {
      let [red, green, blue, alpha] = [0, 0, 0, 0];
      for (let index = 0; index < samples * samples; index += 1) {
        const x = (column + ((index % samples) + 0.5) / samples) / size;
        const y = (row + (Math.floor(index / samples) + 0.5) / samples) / size;
        const [r, g, b, a] = paint(x, y);
        red += r * a;
        green += g * a;
        blue += b * a;
        alpha += a;
      }
      const at = (row * size + column) * 4;
      if (alpha > 0) pixels.set([red / alpha, green / alpha, blue / alpha, alpha / samples ** 2], at);
    }
  }
  return png(size, size, pixels);
}

const clear = [0, 0, 0, 0];

function appIcon(size) {
  const shape = { disc: 0.13, line: 0.035, scale: 0.86 };
  return draw(size, (x, y) => {
    if (!inRoundedSquare(x, y, 0.06, 0.2)) return clear;
    if (inMark(x, y, shape)) return [255, 255, 255, 255];
    return [16 + 12 * x, 94 + 40 * (1 - y), 168 + 44 * (1 - y), 255];
  });
}

/** `idle`: outlines. `serving`: filled. `attention`: filled, with a dot in the corner. */
function trayPicture(size, state, rgb) {
  const colour = [...rgb, 255];
  const shape = { disc: 0.17, line: 0.05, scale: 1.18 };
  const hollow = { ...shape, disc: 0.09, line: 0 };
  return draw(size, (x, y) => {
    if (state === 'attention') {
      const distance = Math.hypot(x - 0.8, y - 0.2);
      if (distance < 0.18) return colour;
      if (distance < 0.27) return clear;
    }
    if (!inMark(x, y, shape)) return clear;
    return state === 'idle' && inMark(x, y, hollow) ? clear : colour;
  });
}

await runScript(async () => {
  const write = (name, content) => {
    const file = inRoot('resources', name);
    mkdirSync(path.dirname(file), { recursive: true });
    writeFileSync(file, content);
  };
  const pictures = new Map([16, 24, 32, 48, 64, 128, 256, 512, 1024].map((size) => [size, appIcon(size)]));
  /** @returns {[number, Buffer][]} */
  const inSizes = (/** @type {number[]} */ ...sizes) =>
    [...pictures].filter(([size]) => sizes.includes(size));
  for (const size of [16, 24, 32, 48, 64, 128, 256, 512]) {
    write(`icons/${size}x${size}.png`, pictures.get(size));
  }
  write('icons/icon.png', pictures.get(512));
  write('icons/icon.ico', ico(inSizes(16, 24, 32, 48, 64, 256)));
  write('icons/icon.icns', icns(inSizes(16, 32, 64, 128, 256, 512, 1024)));
  const black = [0, 0, 0];
  /** @type {[string, number[]][]} */
  const variants = [
    ['Template', black],
    ['-light', [31, 35, 40]],
    ['-dark', [240, 243, 246]],
  ];
  for (const state of ['idle', 'serving', 'attention']) {
    for (const [variant, colour] of variants) {
      write(`tray/${state}${variant}.png`, trayPicture(variant === 'Template' ? 18 : 22, state, colour));
      write(`tray/${state}${variant}@2x.png`, trayPicture(variant === 'Template' ? 36 : 44, state, colour));
    }
  }
  say('Drew resources/icons and resources/tray.');
});
