import { expect, it, vi } from 'vitest';
import { CoveyError } from '#shared/errors.ts';
import type { NodeId } from '#shared/lib/ids.ts';
import { createTransfers } from './transfers.ts';

const nodeId = 'a'.repeat(52) as NodeId;

function setUp() {
  const rejections: ((error: CoveyError) => void)[] = [];
  const request = (): Promise<never> => new Promise((_resolve, reject) => rejections.push(reject));
  const onFailed = vi.fn();
  const fail = (code: 'download_failed' | 'cancelled'): void =>
    rejections.shift()?.(new CoveyError(code, 'it broke'));
  return { transfers: createTransfers({ request }, onFailed), fail, onFailed };
}

it('a transfer that fails is told of once, one that a person cancelled is not', async () => {
  const { transfers, fail, onFailed } = setUp();
  const failed = transfers.start('pull', nodeId, 'hf:a/b/c.gguf');
  fail('download_failed');
  await vi.waitFor(() => expect(transfers.get(failed.id).status).toBe('failed'));
  expect(onFailed).toHaveBeenCalledExactlyOnceWith(
    expect.objectContaining({ id: failed.id, kind: 'pull', nodeId, source: 'hf:a/b/c.gguf' }),
    expect.objectContaining({ code: 'download_failed' }),
  );
  const cancelled = transfers.start('import', nodeId, '/x.gguf');
  transfers.cancel(cancelled.id);
  fail('cancelled');
  await vi.waitFor(() => expect(transfers.get(cancelled.id).error?.code).toBe('cancelled'));
  expect(onFailed).toHaveBeenCalledTimes(1);
});
