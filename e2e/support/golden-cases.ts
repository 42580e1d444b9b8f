import { accessCases } from './goldens/access.ts';
import { artifactCases } from './goldens/artifacts.ts';
import type { GoldenCase } from './goldens/golden-case.ts';
import { jobCases } from './goldens/jobs.ts';
import { machineCases } from './goldens/machines.ts';
import { modelCases } from './goldens/models.ts';
import { ownMachineCases } from './goldens/own-machine.ts';

/** By the command's words; every command of the program has one. */
export const goldenCases: Readonly<Record<string, GoldenCase>> = {
  ...machineCases,
  ...modelCases,
  ...jobCases,
  ...artifactCases,
  ...accessCases,
  ...ownMachineCases,
};
