/** A model in several files is named `<stem>-00001-of-00003.gguf` (llama_split_path of the engine). */
export interface ShardName {
  readonly stem: string;
  /** 1-based, as in the name. */
  readonly index: number;
  readonly count: number;
}

export const MAX_SHARDS = 1000;

const pattern = /^(.+)-(\d{5})-of-(\d{5})\.gguf$/i;

/** null for a name that is not a shard's. Works on a bare name and on a path. */
export function parseShardName(name: string): ShardName | null {
  const match = pattern.exec(name);
  if (match === null) return null;
  const index = Number(match[2]);
  const count = Number(match[3]);
  if (count < 2 || count > MAX_SHARDS || index < 1 || index > count) return null;
  return { stem: match[1] as string, index, count };
}

/** The names of all shards in order, in the spelling of the one given. */
export function shardNames(shard: ShardName): string[] {
  const digits = (value: number): string => String(value).padStart(5, '0');
  return Array.from(
    { length: shard.count },
    (_, index) => `${shard.stem}-${digits(index + 1)}-of-${digits(shard.count)}.gguf`,
  );
}

/** The name without `.gguf` and without a shard's suffix. */
export function modelStem(fileName: string): string {
  return parseShardName(fileName)?.stem ?? fileName.replace(/\.gguf$/i, '');
}
