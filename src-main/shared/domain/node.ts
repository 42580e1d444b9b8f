import { z } from 'zod';

/** Bounded text from another machine. */
export const shortText = z.string().max(256);

/** A live figure that a system, or an older version, may not tell. */
const figure = z.number().nullable().default(null);

/** A figure that a probe may fail to get: then `unknown` says why. */
export const unknownable = <T extends z.ZodType>(value: T) =>
  z.union([
    z.object({ known: z.literal(true), value }),
    z.object({ known: z.literal(false), reason: z.string().max(512) }),
  ]);
export type Unknownable<T> = { known: true; value: T } | { known: false; reason: string };

/** A compute device as the engine itself lists it, e.g. `CPU`, `CUDA0`, `Vulkan0`, `Metal`. */
export const deviceSchema = z.object({
  /** The engine's name for it, what `--device` takes. */
  id: z.string().min(1).max(64),
  kind: z.enum(['cpu', 'gpu']),
  backend: z.string().max(64),
  name: shortText,
  totalBytes: z.number().int().nonnegative(),
  freeBytes: z.number().int().nonnegative(),
  /** Same card seen by two backends counts once (`0000:01:00.0`). */
  pciId: z.string().max(32).nullable(),
});
export type Device = z.infer<typeof deviceSchema>;

export const hardwareSchema = z.object({
  os: z.object({
    platform: z.string().max(32),
    arch: z.string().max(32),
    release: shortText,
    hostname: shortText,
  }),
  cpu: unknownable(
    z.object({
      model: shortText,
      physicalCores: z.number().int().positive(),
      logicalCores: z.number().int().positive(),
    }),
  ),
  ram: unknownable(z.object({ totalBytes: z.number().int().positive() })),
  disk: unknownable(
    z.object({
      path: z.string().max(1024),
      totalBytes: z.number().nonnegative(),
      freeBytes: z.number().nonnegative(),
    }),
  ),
  gpus: unknownable(
    z
      .array(
        z.object({
          vendor: shortText,
          model: shortText,
          vramBytes: z.number().nonnegative().nullable(),
          driver: shortText.nullable(),
        }),
      )
      .max(32),
  ),
  /** What the engine can compute on; always contains the CPU when known. */
  devices: unknownable(z.array(deviceSchema).max(64)),
});
export type Hardware = z.infer<typeof hardwareSchema>;

export const telemetrySchema = z.object({
  /** 0..1 over all cores since the last sample. */
  cpuLoad: z.number().min(0).max(1).nullable(),
  ramTotalBytes: z.number().nonnegative(),
  /** Free for a new program: free plus reclaimable. */
  ramAvailableBytes: z.number().nonnegative(),
  diskFreeBytes: z.number().nonnegative().nullable(),
  /** RSS of our own processes without engines. */
  ownRssBytes: z.number().nonnegative(),
  deviceFree: z
    .array(
      z.object({
        id: z.string().max(64),
        freeBytes: z.number().nonnegative(),
        /** 0..1 */
        load: figure.pipe(z.number().min(0).max(1).nullable()),
        celsius: figure,
      }),
    )
    .max(64),
  /** By all real adapters, bytes/s. */
  receiveBytesPerS: figure.pipe(z.number().nonnegative().nullable()),
  sendBytesPerS: figure.pipe(z.number().nonnegative().nullable()),
  /** Of the hottest sensor of the CPU. */
  celsius: figure,
});
export type Telemetry = z.infer<typeof telemetrySchema>;

export const addressSchema = z.object({
  host: z.string().min(1).max(255),
  port: z.number().int().min(1).max(65535),
});
export type Address = z.infer<typeof addressSchema>;

/**
 * What the controller shows of a node. `pending`: asked to join. `ready`: connected, may take work.
 * `busy`: work runs, may take more. `draining`: gives its work back. `paused`: takes none by its owner's wish.
 * `unhealthy`: connected, but its own checks fail. `lost`: stopped answering. `offline`: said goodbye.
 */
export const nodeStatusSchema = z.enum([
  'pending',
  'ready',
  'busy',
  'draining',
  'paused',
  'unhealthy',
  'lost',
  'offline',
]);
export type NodeStatus = z.infer<typeof nodeStatusSchema>;
