import { Alert, Text } from '@mantine/core';
import { IconInfoCircle } from '@tabler/icons-react';
import type { NodeView } from '#shared/api/schema.ts';
import type { JobKind } from '#shared/domain/job-spec.ts';
import { plainText } from '../../format/plain-text.ts';
import { useNodes } from '../../queries/queries.ts';
import { isProgram } from './job-draft.ts';

/** Where no machine runs programs of members: why, and who can allow it where. Else nothing. */
export function ProgramsForbidden({ kind }: { readonly kind: JobKind }) {
  const nodes = useNodes().data?.nodes ?? [];
  const known = nodes.filter(({ compute }) => compute !== null);
  if (!isProgram(kind) || known.length === 0) return null;
  if (known.some(({ compute }) => compute?.commands.allowed === true)) return null;
  const reasons = known.filter(({ compute }) => (compute?.problems.length ?? 0) > 0).slice(0, 4);
  return (
    <Alert
      color="yellow"
      icon={<IconInfoCircle size={18} aria-hidden />}
      title="No machine runs programs of members now"
    >
      <Text size="sm">
        Their owners decide that, each at the machine itself: in the app under <b>This computer</b>, in the
        dashboard of the controller under <b>Settings</b>, the switch <b>Programs of members</b>. In a
        terminal there: <code>covey lend set commands on</code>. Until then such a job waits.
      </Text>
      {reasons.map((node) => (
        <Text key={node.id} size="sm" mt={4}>
          {reasonText(node)}
        </Text>
      ))}
    </Alert>
  );
}

function reasonText({ name, compute }: NodeView): string {
  return `${plainText(name)}: ${(compute?.problems ?? []).map((text) => plainText(text)).join(' ')}`;
}
