import { expect, it } from 'vitest';
import type { Finding } from '../check.ts';
import type { DoctorContext } from '../context.ts';
import { exampleContext } from '../fixtures.ts';
import type { DoctorSystem } from '../system.ts';

export type Case = readonly [
  name: string,
  context: Partial<DoctorContext>,
  system: DoctorSystem,
  status: Finding['status'],
  text: RegExp,
];

/** Runs a check for each case and looks at status, and at summary and action together. */
export function cases(
  check: (context: DoctorContext, system: DoctorSystem) => Promise<Finding> | Finding,
  all: readonly Case[],
): void {
  it.each(all)('%s', async (_name, context, system, status, text) => {
    const found = await check(exampleContext(context), system);
    expect([found.status, `${found.summary} -> ${found.action ?? ''}`]).toEqual([
      status,
      expect.stringMatching(text),
    ]);
  });
}
