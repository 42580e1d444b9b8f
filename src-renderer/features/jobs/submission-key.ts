import type { JobSpec } from '#shared/domain/job-spec.ts';

/**
 * Names what is sent (see `idempotencyKeySchema`): the same specification, secrets and all, has the same key however
 * often it is sent. Two presses, or another one after an answer that was lost, are one job.
 */
export function createSubmissionKeys(newKey: () => string): (spec: JobSpec) => string {
  let sent: { readonly json: string; readonly key: string } | null = null;
  return (spec) => {
    const json = JSON.stringify(spec);
    if (sent?.json !== json) sent = { json, key: newKey() };
    return sent.key;
  };
}
