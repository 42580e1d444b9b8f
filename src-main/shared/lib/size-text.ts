const KiB = 1024;
const MiB = 1024 * KiB;
const GiB = 1024 * MiB;

/** A size in a sentence: `630 MiB`, rounded up, or `1.5 GiB`. Units are those that people write sizes in: of 1024. */
export function sizeText(bytes: number): string {
  return bytes >= GiB ? `${(bytes / GiB).toFixed(1)} GiB` : `${Math.ceil(bytes / MiB)} MiB`;
}

const units = [
  [1024 * GiB, 'TiB'],
  [GiB, 'GiB'],
  [MiB, 'MiB'],
  [KiB, 'KiB'],
] as const;

/** A size that was chosen, not rounded: `300 MiB`, `1.5 GiB`, `4194305 B`. */
export function exactSizeText(bytes: number): string {
  for (const [size, unit] of units) {
    const count = bytes / size;
    if (count >= 1 && Number(count.toFixed(3)) === count) return `${count} ${unit}`;
  }
  return `${bytes} B`;
}
