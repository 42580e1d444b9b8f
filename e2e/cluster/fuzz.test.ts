import { expect, test } from 'vitest';
import { httpPlan } from '../fuzz/plans.ts';
import { formatReports, fuzz } from '../fuzz/runner.ts';
import type { HttpContext } from '../fuzz/targets/http-request.ts';
import { useCluster } from '../support/use-cluster.ts';

const cluster = useCluster();
/** The long form sets them (see scripts/soak.mjs); the short form is the same every time. */
const inputs = Number(process.env['COVEY_FUZZ_HTTP_INPUTS'] ?? 8_000);
const seed = Number(process.env['COVEY_FUZZ_SEED'] ?? 1);
const from = Number(process.env['COVEY_FUZZ_FROM'] ?? 0);

test(
  `requests of all kinds to a controller that runs, seed ${seed}: it answers, and goes on`,
  async () => {
    // A heap this small: what keeps memory with every request ends it.
    const env = { NODE_OPTIONS: '--max-old-space-size=96' };
    const controller = await cluster.current.startController({ env });
    const context: HttpContext = {
      port: Number(new URL(controller.api).port),
      token: controller.token,
      pid: controller.report.pid,
    };
    const report = await fuzz(httpPlan, { inputs, seed, from, context });
    console.log(formatReports([report]));
    expect((await controller.client.call('status')).nodeId).toBe(controller.report.nodeId);
  },
  60 * 60_000,
);
