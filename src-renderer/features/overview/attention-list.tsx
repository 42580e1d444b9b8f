import { Button, Text } from '@mantine/core';
import { IconAlertTriangle, IconBell, IconInfoCircle } from '@tabler/icons-react';
import { hrefTo } from '../../app/router.ts';
import { Section } from '../../components/page.tsx';
import { plainText } from '../../format/plain-text.ts';
import { useAction } from '../../queries/queries.ts';
import type { Attention, AttentionAction } from './attention.ts';

const icons = { bad: IconAlertTriangle, warn: IconBell, quiet: IconInfoCircle } as const;

export function AttentionList({ items }: { readonly items: readonly Attention[] }) {
  return (
    <Section title="Needs attention" flush>
      <ul className="attention">
        {items.map((item) => {
          const ToneIcon = icons[item.tone];
          return (
            <li key={item.key} data-tone={item.tone}>
              <ToneIcon size={18} stroke={1.8} aria-hidden className="attention-icon" />
              <div className="attention-words">
                <Text fw={600} size="sm">
                  {plainText(item.title)}
                </Text>
                <Text size="sm" c="dimmed">
                  {plainText(item.detail)}
                </Text>
              </div>
              {item.action === null ? null : <ActionButton action={item.action} about={item.title} />}
            </li>
          );
        })}
      </ul>
    </Section>
  );
}

function ActionButton({ action, about }: { readonly action: AttentionAction; readonly about: string }) {
  const retry = useAction('retry', { failed: 'Could not try again', changes: ['deployments'] });
  const resume = useAction('resume', {
    done: (node) => `${node.name} takes work again.`,
    failed: 'Could not resume the machine',
    changes: ['nodes', 'status'],
  });
  const common = { size: 'compact-sm', variant: 'default' } as const;
  switch (action.kind) {
    case 'open':
      return (
        <Button
          {...common}
          component="a"
          href={hrefTo(action.page, ...action.rest)}
          aria-label={`${action.label}: ${about}`}
        >
          {action.label}
        </Button>
      );
    case 'retry':
      return (
        <Button
          {...common}
          loading={retry.isPending}
          onClick={() => retry.mutate({ params: { id: action.deployment } })}
          aria-label={`Try again: ${about}`}
        >
          Try again
        </Button>
      );
    case 'resume':
      return (
        <Button
          {...common}
          loading={resume.isPending}
          onClick={() => resume.mutate({ params: { node: action.node } })}
          aria-label={`Resume: ${about}`}
        >
          Resume
        </Button>
      );
  }
}
