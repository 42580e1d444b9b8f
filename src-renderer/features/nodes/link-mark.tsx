import { Tooltip } from '@mantine/core';
import type { PairCheck } from '#shared/api/self.ts';
import { StatusMark, type Tone } from '../../components/status.tsx';
import { plainText } from '../../format/plain-text.ts';
import { quality, weakness } from './link-grid.ts';

const tones: Readonly<Record<ReturnType<typeof quality>, Tone>> = {
  good: 'good',
  fair: 'warn',
  poor: 'bad',
  none: 'bad',
};
const paths = { direct: 'direct', reverse: 'reverse', relay: 'relayed', local: 'local' } as const;

/** By which way a link goes and what is bad about it; more, and why there is none, on hover. */
export function LinkMark({ link }: { readonly link: PairCheck }) {
  const grade = quality(link);
  if (grade === 'none') {
    return (
      <Tooltip label={plainText(link.error?.message ?? 'No way was found.')} multiline maw={360}>
        <span tabIndex={0}>
          <StatusMark tone="bad">No link</StatusMark>
        </span>
      </Tooltip>
    );
  }
  const path = link.path === null ? '' : paths[link.path];
  const weak = weakness(link);
  if (weak === null) return <StatusMark tone={tones[grade]}>{path}</StatusMark>;
  return (
    <Tooltip label={weak.why} multiline maw={360}>
      <span tabIndex={0}>
        <StatusMark tone={tones[grade]}>{weak.word === '' ? path : `${path}, ${weak.word}`}</StatusMark>
      </span>
    </Tooltip>
  );
}
