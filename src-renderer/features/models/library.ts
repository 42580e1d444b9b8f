import type { ModelView } from '#shared/api/schema.ts';

/** A model of the covey's libraries: the same name on several machines is one. */
export interface LibraryEntry {
  readonly name: string;
  readonly fileBytes: number;
  readonly info: ModelView['info'];
  /** Where it is, by machine name. */
  readonly copies: readonly ModelView[];
}

export function byName(models: readonly ModelView[]): LibraryEntry[] {
  const found = new Map<string, ModelView[]>();
  for (const model of models) found.set(model.name, [...(found.get(model.name) ?? []), model]);
  return [...found.entries()]
    .map(([name, copies]) => {
      const sorted = [...copies].sort((a, b) => a.nodeName.localeCompare(b.nodeName));
      const info = sorted.find((copy) => copy.info !== null)?.info ?? null;
      return { name, info, copies: sorted, fileBytes: Math.max(...sorted.map((copy) => copy.fileBytes)) };
    })
    .sort((a, b) => a.name.localeCompare(b.name));
}

/** Layers of a model as they are placed: the repeating ones and the output. */
export function layersTotal(info: ModelView['info']): number | null {
  return info === null ? null : info.layerCount + 1;
}
