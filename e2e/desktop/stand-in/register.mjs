import { registerHooks } from 'node:module';

/** Preloaded with --import: whoever imports `electron` or `electron-updater` gets the stand-in. */
const standIns = new Map([
  ['electron', new URL('./electron.ts', import.meta.url).href],
  ['electron-updater', new URL('./updater.ts', import.meta.url).href],
]);

registerHooks({
  resolve(specifier, context, next) {
    const url = standIns.get(specifier);
    return url === undefined ? next(specifier, context) : { url, shortCircuit: true };
  },
});
