import { z } from 'zod';
import { artifactIdSchema, jobIdSchema, nodeIdSchema } from '../lib/ids.ts';

/** Artifacts move and are compared in chunks of this size; the last of a file may be shorter. */
export const ARTIFACT_CHUNK_BYTES = 4 * 1024 * 1024;
export const ARTIFACT_MAX_TREE_ENTRIES = 100_000;

/**
 * A path inside a tree: relative, `/` between parts, no part empty, `.` or `..`, nothing that Windows reads
 * otherwise (drive, backslash, reserved name, trailing dot or blank) and no control characters.
 */
export const treePathSchema = z
  .string()
  .min(1)
  .max(1024)
  .refine(isSafeTreePath, 'must be a relative path without "..", drive letters or control characters');

export function isSafeTreePath(path: string): boolean {
  return treePathProblem(path) === null;
}

/** Why a path cannot be in a tree, as the end of a sentence that begins with it; null: it can. */
export function treePathProblem(path: string): string | null {
  if (/\p{C}/u.test(path)) return 'has a control character in its name';
  const [sign] = /[\\:*?"<>|]/.exec(path) ?? [];
  if (sign !== undefined) return `has a ${sign} in its name, which Windows cannot have`;
  for (const part of path.split('/')) {
    if (part === '' || part === '.' || part === '..')
      return 'leads out of the folder, or to the folder itself';
    if (part.length > 255) return 'has a name of more than 255 characters';
    if (/[. ]$/.test(part)) return 'has a name that ends with a dot or a blank, which Windows cannot have';
    if (/^(con|prn|aux|nul|com\d|lpt\d)(\..*)?$/i.test(part)) return 'has a name that is a device on Windows';
  }
  return null;
}

export const treeEntrySchema = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('directory'), path: treePathSchema }),
  z.strictObject({
    type: z.literal('file'),
    path: treePathSchema,
    bytes: z.number().int().nonnegative(),
    sha256: artifactIdSchema,
    executable: z.boolean(),
  }),
]);
export type TreeEntry = z.infer<typeof treeEntrySchema>;

/**
 * A tree's content: its entries by path in code-unit order, no path twice, also not when compared without case.
 * The tree's id is the SHA-256 of this object as canonical JSON (`canonicalManifest`): UTF-8, keys in the
 * order of the schema, no blanks. Links do not exist in trees.
 */
export const treeManifestSchema = z.strictObject({
  version: z.literal(1),
  entries: z.array(treeEntrySchema).max(ARTIFACT_MAX_TREE_ENTRIES),
});
export type TreeManifest = z.infer<typeof treeManifestSchema>;

export const artifactKindSchema = z.enum(['file', 'tree']);

export const artifactNameSchema = z
  .string()
  .min(1)
  .max(256)
  .regex(/^[^\p{C}]+$/u, 'must not contain control characters');

/** An artifact as jobs name it: its id, a prefix of one of at least 8 digits, or a name that is unique. */
export const artifactRefSchema = z.string().min(1).max(256);

export const artifactViewSchema = z.object({
  id: artifactIdSchema,
  kind: artifactKindSchema,
  name: z.string(),
  /** Of all its files. */
  bytes: z.number().int().nonnegative(),
  files: z.number().int().nonnegative(),
  createdAt: z.number(),
  lastUsedAt: z.number(),
  /** Kept until a person removes it: put there by one. Results of jobs are kept as long as their job. */
  pinned: z.boolean(),
  /** Jobs that need or made it; while there are any it is not collected. */
  jobs: z.array(jobIdSchema),
  holders: z.array(z.object({ nodeId: nodeIdSchema, nodeName: z.string() })),
  /** Absent: it is no result of a job that there is. `name` as in `JobResult`. */
  resultOf: z.object({ jobId: jobIdSchema, jobName: z.string(), name: z.string() }).optional(),
  /** When nothing needs it any more: from then on it may be collected; null: it is needed. */
  collectableAt: z.number().nullable(),
});
export type ArtifactView = z.infer<typeof artifactViewSchema>;

/** What it is called among others: results of jobs often have the same name. `render/3/frame.png` */
export function artifactTitle({ name, resultOf }: Pick<ArtifactView, 'name' | 'resultOf'>): string {
  return resultOf === undefined ? name : `${resultOf.jobName}/${resultOf.name}`;
}

/** An artifact as work names it. */
export const artifactStakeSchema = z.object({
  id: artifactIdSchema,
  kind: artifactKindSchema,
  bytes: z.number().int().nonnegative(),
});
export type ArtifactStake = z.infer<typeof artifactStakeSchema>;
