import { z } from 'zod';
import { lendRulesSchema } from './domain/lend.ts';

/**
 * What a person may set, in `config.json` of the data directory and by `/api/settings`. Every field has a
 * default; the file holds only what was set. Bounded so that no setting can make the program unusable.
 */
const hostMessage = 'must be a host name in lower case, without a port';
const hostName = z
  .string(hostMessage)
  .min(1, hostMessage)
  .max(253, hostMessage)
  .regex(/^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$/, hostMessage);
const hostsMessage = 'must be a list of at most 32 host names';
const fileMessage = 'must be the path of a file, of at most 4096 characters';
const filePath = z.string(fileMessage).min(1, fileMessage).max(4096, fileMessage);
const portMessage = 'must be a whole number from 1 to 65535';
const bytesMessage = 'must be a whole number of bytes below 8 PiB, or null';
const flag = z.boolean('must be true or false');
const group = 'must be an object of settings';

/** The messages go on where the setting's name stands, as in `lan.port must be ...`. */
export const settingsSchema = z.strictObject(
  {
    discovery: z
      .strictObject(
        {
          /** Announce this machine by multicast DNS and listen for others. */
          enabled: flag.default(true),
        },
        onType(group),
      )
      .prefault({}),
    api: z
      .strictObject(
        {
          /** Want an API key for `/v1` on loopback too. */
          requireKey: flag.default(false),
          /** Host names, besides this machine's own, under which the API may be called. */
          allowedHosts: z.array(hostName, hostsMessage).max(32, hostsMessage).default([]),
        },
        onType(group),
      )
      .prefault({}),
    lend: lendRulesSchema,
    artifacts: z
      .strictObject(
        {
          /** What a controller's artifacts may take of its disk; null: nine tenths of what is free. */
          quotaBytes: z.number(bytesMessage).int(bytesMessage).min(0, bytesMessage).nullable().default(null),
        },
        onType(group),
      )
      .prefault({}),
    /** The desktop app of this machine; a machine without it keeps them for later. */
    app: z
      .strictObject(
        {
          /** Start with the session of the person who uses this machine, without a window. */
          openAtLogin: flag.default(false),
          updates: z
            .strictObject(
              {
                /** Fetch new versions in the background; they are installed when nothing runs here. */
                automatic: flag.default(true),
                channel: z.enum(['stable', 'beta'], 'must be stable or beta').default('stable'),
              },
              onType(group),
            )
            .prefault({}),
        },
        onType(group),
      )
      .prefault({}),
    lan: z
      .strictObject(
        {
          /** Serve the API to other machines: HTTPS, with a key for each caller. Controllers only. */
          enabled: flag.default(false),
          port: z
            .number(portMessage)
            .int(portMessage)
            .min(1, portMessage)
            .max(65_535, portMessage)
            .default(7880),
          /** PEM files of a certificate (with its chain) and its key; null: one of our own CA. Both or neither. */
          certificateFile: filePath.nullable().default(null),
          keyFile: filePath.nullable().default(null),
        },
        onType(group),
      )
      .prefault({})
      .refine((lan) => (lan.certificateFile === null) === (lan.keyFile === null), {
        path: ['keyFile'],
        message: 'must be set together with lan.certificateFile, or neither of the two',
      }),
  },
  onType(group),
);
export type Settings = z.infer<typeof settingsSchema>;
/** As `config.json` has it and `PATCH /api/settings` takes it: any part, deep. */
export type SettingsInput = z.input<typeof settingsSchema>;

export const defaultSettings: Settings = settingsSchema.parse({});

/** An unknown member is said in the schema's own words: it has its own error. */
function onType(message: string) {
  return {
    error: (issue: { readonly code?: string }) => (issue.code === 'invalid_type' ? message : undefined),
  };
}
