import { z } from 'zod';

/** `HH:MM`, local time of the machine. */
const timeOfDay = z.string().regex(/^([01]\d|2[0-3]):[0-5]\d$/, 'must be a time of day such as 08:30');

/** When and how far the owner of a machine lends it. Set on that machine only, enforced by its worker. */
export const lendRulesSchema = z
  .strictObject({
    /** The switch. Off: the machine is a member that gets no work. */
    enabled: z.boolean().default(true),
    limits: z
      .strictObject({
        cpuThreads: z.number().int().min(1).max(4096).nullable().default(null),
        /** Admission limit for all that the covey runs here, checked again after a load. */
        ramBytes: z.number().int().min(0).nullable().default(null),
        /** By the engine's device name (`CUDA0`); devices without an entry are free. 0: not lent. */
        vramBytes: z.record(z.string().min(1).max(64), z.number().int().min(0)).default({}),
        diskBytes: z.number().int().min(0).nullable().default(null),
        uploadBytesPerS: z.number().int().min(1024).nullable().default(null),
      })
      .prefault({}),
    /** Only within one of these; null: always. A range over midnight belongs to the day on which it begins. */
    schedule: z
      .array(
        z.strictObject({
          /** 0 Sunday ... 6 Saturday. */
          days: z.array(z.number().int().min(0).max(6)).min(1).max(7),
          from: timeOfDay,
          to: timeOfDay,
        }),
      )
      .max(32)
      .nullable()
      .default(null),
    /** Only when nobody has used keyboard or mouse for so long; null: whoever sits there or not. */
    idleMinutes: z.number().int().min(1).max(1440).nullable().default(null),
    giveWay: z
      .strictObject({
        onBattery: z.boolean().default(true),
        /** While one of these programs runs: names without path, compared without case. */
        programs: z.array(z.string().min(1).max(128)).max(64).default([]),
        fullScreen: z.boolean().default(false),
        /** While the hottest sensor reads this or more. */
        hotCelsius: z.number().min(40).max(120).nullable().default(null),
      })
      .prefault({}),
    kinds: z
      .strictObject({
        inference: z.boolean().default(true),
        kernels: z.boolean().default(true),
        /** Programs that members send: forbidden until the owner allows them. */
        commands: z.boolean().default(false),
      })
      .prefault({}),
    /**
     * Programs whose job asks for it see the network of this machine, and ranks of gangs may listen on these ports at
     * this interface: the one exception to the one port. null: no program does.
     */
    network: z
      .strictObject({
        interface: z.string().regex(/^[^\s/\p{C}]{1,64}$/u, 'must be the name of a network interface'),
        ports: z
          .strictObject({
            from: z.number().int().min(1024).max(65_535),
            to: z.number().int().min(1024).max(65_535),
          })
          .refine(({ from, to }) => from <= to, { message: 'must not be below `from`', path: ['to'] }),
      })
      .nullable()
      .default(null),
  })
  .prefault({});
export type LendRules = z.infer<typeof lendRulesSchema>;

export const lendRuleNameSchema = z.enum([
  'switch',
  'schedule',
  'idle',
  'battery',
  'program',
  'full-screen',
  'hot',
]);
export type LendRuleName = z.infer<typeof lendRuleNameSchema>;

/** Whether the machine is lent now, and if not, why: reported with every heartbeat. */
export const lendStateSchema = z.object({
  lending: z.boolean(),
  /** Since when it is as it is, epoch ms of that machine. */
  since: z.number(),
  /** It is lent for other work only: its owner lets no models run on it. */
  noModels: z.boolean().optional(),
  /** The rules that hold it back, each with one sentence. */
  heldBackBy: z.array(z.object({ rule: lendRuleNameSchema, message: z.string().max(256) })).max(8),
  /** Rules that are set but cannot be sensed on this system, and why. */
  unavailable: z.array(z.object({ rule: lendRuleNameSchema, reason: z.string().max(256) })).max(8),
});
export type LendState = z.infer<typeof lendStateSchema>;
