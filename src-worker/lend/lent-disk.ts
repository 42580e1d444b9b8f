export type DiskUserName = 'models' | 'artifacts';

/** One of those who share what the owner lends of the disk. */
export interface DiskUser {
  /** What it holds, and what is on its way to it. */
  readonly bytes: () => number;
  /** Gives up what nobody needs: so many bytes, or as many as it can. */
  readonly giveUp: (bytes: number) => Promise<void>;
}

/** What the owner lends of the disk, over models and artifacts together. */
export interface LentDisk {
  /** In place of an earlier user of this name. */
  use(name: DiskUserName, user: DiskUser): void;
  /** What this user may hold, the others holding what they do; null: the disk is the limit. */
  shareOf(name: DiskUserName): number | null;
  /** Has the others give up what they can, so that this one may hold so many bytes more. */
  askOthers(name: DiskUserName, bytes: number): Promise<void>;
}

/** @param limitBytes as the owner has set it now */
export function createLentDisk(limitBytes: () => number | null): LentDisk {
  const users = new Map<DiskUserName, DiskUser>();
  const others = (name: DiskUserName): DiskUser[] =>
    [...users].filter(([other]) => other !== name).map(([, user]) => user);
  return {
    use: (name, user) => void users.set(name, user),
    shareOf(name) {
      const limit = limitBytes();
      return limit === null ? null : others(name).reduce((left, user) => left - user.bytes(), limit);
    },
    async askOthers(name, bytes) {
      for (const user of others(name)) await user.giveUp(bytes);
    },
  };
}
