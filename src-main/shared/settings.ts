import { z } from 'zod';
import { lendRulesSchema } from './domain/lend.ts';

/**
 * What a person may set, in `config.json` of the data directory and by `/api/settings`. Every field has a
 * default; the file holds only what was set. Bounded so that no setting can make the program unusable.
 */
const hostName = z
  .string()
  .min(1)
  .max(253)
  .regex(/^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$/, 'must be a host name in lower case, without a port');
const filePath = z.string().min(1).max(4096);

export const settingsSchema = z.strictObject({
  discovery: z
    .strictObject({
      /** Announce this machine by multicast DNS and listen for others. */
      enabled: z.boolean().default(true),
    })
    .prefault({}),
  api: z
    .strictObject({
      /** Want an API key for `/v1` on loopback too. */
      requireKey: z.boolean().default(false),
      /** Host names, besides this machine's own, under which the API may be called. */
      allowedHosts: z.array(hostName).max(32).default([]),
    })
    .prefault({}),
  lend: lendRulesSchema,
  /** The desktop app of this machine; a machine without it keeps them for later. */
  app: z
    .strictObject({
      /** Start with the session of the person who uses this machine, without a window. */
      openAtLogin: z.boolean().default(false),
      updates: z
        .strictObject({
          /** Fetch new versions in the background; they are installed when nothing runs here. */
          automatic: z.boolean().default(true),
          channel: z.enum(['stable', 'beta']).default('stable'),
        })
        .prefault({}),
    })
    .prefault({}),
  lan: z
    .strictObject({
      /** Serve the API to other machines: HTTPS, with a key for each caller. Controllers only. */
      enabled: z.boolean().default(false),
      port: z.number().int().min(1).max(65_535).default(7880),
      /** PEM files of a certificate (with its chain) and its key; null: one of our own CA. Both or neither. */
      certificateFile: filePath.nullable().default(null),
      keyFile: filePath.nullable().default(null),
    })
    .prefault({})
    .refine((lan) => (lan.certificateFile === null) === (lan.keyFile === null), {
      path: ['keyFile'],
      message: 'certificateFile and keyFile belong together: set both or neither',
    }),
});
export type Settings = z.infer<typeof settingsSchema>;
/** As `config.json` has it and `PATCH /api/settings` takes it: any part, deep. */
export type SettingsInput = z.input<typeof settingsSchema>;

export const defaultSettings: Settings = settingsSchema.parse({});
