import { z } from 'zod';
import type { Reading } from '../decide.ts';
import { unknown, type SensorSystem } from './system.ts';

/** Names a file that stands in for this machine's sensors. */
export const sensorsFileVariable = 'COVEY_LEND_SENSORS';

const contentSchema = z.strictObject({
  idleMs: z.number().min(0).optional(),
  onBattery: z.boolean().optional(),
  programs: z.array(z.string().max(256)).max(4096).optional(),
  fullScreen: z.boolean().optional(),
  celsius: z.number().min(-100).max(200).optional(),
});
export type SensorsFile = z.infer<typeof contentSchema>;

/**
 * Sensors whose readings stand in a file as JSON, read again each time: for tests, and for systems that tell only
 * programs of their own (a script of the desktop can write it). What is not in it is unknown.
 */
export async function readSensorsFile(
  system: Pick<SensorSystem, 'readText'>,
  path: string,
): Promise<<K extends keyof SensorsFile>(name: K) => Reading<NonNullable<SensorsFile[K]>>> {
  const text = await system.readText(path);
  const content = parse(text);
  return (name) => {
    if (typeof content === 'string') return unknown(`${sensorsFileVariable}: ${path} ${content}`);
    const value = content[name];
    return value === undefined
      ? unknown(`${sensorsFileVariable}: ${path} has no ${name}`)
      : { known: true, value };
  };
}

function parse(text: string | null): SensorsFile | string {
  if (text === null) return 'cannot be read';
  try {
    const parsed = contentSchema.safeParse(JSON.parse(text));
    if (parsed.success) return parsed.data;
    const issue = parsed.error.issues[0];
    return `is wrong at ${issue?.path.join('.') || 'its top'}: ${issue?.message ?? 'invalid'}`;
  } catch {
    return 'is not JSON';
  }
}
