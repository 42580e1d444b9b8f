import { Text } from '@mantine/core';
import type { ReactNode } from 'react';
import type { LendState } from '#shared/domain/lend.ts';
import { StatusMark } from '../../components/status.tsx';
import { plainText } from '../../format/plain-text.ts';

/** What the rules of lending come to now. `absent`: said where the machine lends nothing whatever they are. */
export function LendNow(props: { readonly lend: LendState | null; readonly absent: ReactNode }) {
  const { lend, absent } = props;
  return (
    <div className="setting-now" role="status" aria-label="Lending now">
      {lend === null ? (
        <Text size="sm" c="dimmed">
          {absent}
        </Text>
      ) : lend.lending ? (
        <StatusMark tone="good">Lent now</StatusMark>
      ) : (
        <>
          <StatusMark tone="quiet">Not lent now</StatusMark>
          {lend.heldBackBy.map(({ rule, message }) => (
            <Text key={rule} size="sm">
              {plainText(message)}
            </Text>
          ))}
        </>
      )}
    </div>
  );
}
