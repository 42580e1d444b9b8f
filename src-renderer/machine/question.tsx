import { Button, Text, UnstyledButton } from '@mantine/core';
import { useState } from 'react';
import type { DiscoveryView } from '#shared/api/self.ts';
import type { DesktopRole, ShellBridge } from '#shared/api/shell.ts';
import { Section } from '../components/page.tsx';
import { toastError } from '../components/toasts.tsx';
import { plainText } from '../format/plain-text.ts';
import { controllersOf } from './controllers.ts';
import { shellError } from './shell-error.ts';

const uses: ReadonlyArray<readonly [DesktopRole, string, string]> = [
  [
    'both',
    'Controller, and lend this computer',
    'It leads your covey and works in it. Right for the first one.',
  ],
  ['lend', 'Lend only', 'It works for a covey that another computer leads.'],
  ['controller', "My covey's controller", 'It leads your covey and does no work itself.'],
];

interface QuestionProps {
  readonly shell: ShellBridge;
  /** Undefined: the first look goes on. */
  readonly found: DiscoveryView | undefined;
  /** null: the first start. */
  readonly role: DesktopRole | null;
}

/** The one question of the first start. */
export function Question({ shell, found, role }: QuestionProps) {
  const [choosing, setChoosing] = useState<DesktopRole | null>(null);
  const choose = (use: DesktopRole): void => {
    setChoosing(use);
    // When it is done, the window goes on by itself.
    shell
      .chooseRole(use)
      .catch((error: unknown) => toastError('It cannot be used for that', shellError(error)))
      .finally(() => setChoosing(null));
  };
  return (
    <Section title="Use this computer for">
      <Text size="sm" c="dimmed" mb="sm" aria-live="polite">
        {heard(found)}
      </Text>
      <div className="machine-choices">
        {uses.map(([use, title, text]) => (
          <UnstyledButton
            key={use}
            className="machine-choice"
            disabled={use === role || choosing !== null}
            onClick={() => choose(use)}
          >
            <Text fw={600} component="span" display="block">
              {title}
              {use === role ? ' (now)' : ''}
              {use === choosing ? ' ...' : ''}
            </Text>
            <Text size="sm" c="dimmed" component="span" display="block">
              {text}
            </Text>
          </UnstyledButton>
        ))}
      </div>
    </Section>
  );
}

/** The question again, for who wants another answer. */
export function ChangeUse(props: QuestionProps) {
  const [open, setOpen] = useState(false);
  if (open) return <Question {...props} />;
  const now = uses.find(([use]) => use === props.role)?.[1] ?? '';
  return (
    <Section
      title="Part in the covey"
      actions={
        <Button size="xs" variant="default" onClick={() => setOpen(true)}>
          Use it for something else
        </Button>
      }
    >
      <Text size="sm">{now}</Text>
    </Section>
  );
}

function heard(found: DiscoveryView | undefined): string {
  if (found === undefined) return 'Looking for controllers on your network ...';
  const controllers = controllersOf(found);
  if (controllers.length === 0) return 'No controller was found on your network.';
  const names = controllers.map(({ name }) => plainText(name)).join(', ');
  return `Found on your network: ${names}. You probably want to lend this computer to it.`;
}
