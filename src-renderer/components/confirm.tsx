import { Button, Group, Modal, Stack, Text } from '@mantine/core';
import type { ReactNode } from 'react';
import { create } from 'zustand';

export interface Question {
  readonly title: string;
  /** What will happen, and what will not come back. */
  readonly body: ReactNode;
  /** On the button: the verb, not "OK". */
  readonly action: string;
  /** Cannot be undone. */
  readonly danger?: boolean;
}

interface Asked {
  readonly question: Question;
  readonly answer: (yes: boolean) => void;
}

const useAsked = create<{ readonly asked: Asked | null; readonly open: boolean }>(() => ({
  asked: null,
  open: false,
}));

/** Asks once, in a dialog; a question before it that nobody answered counts as "no". */
export function confirm(question: Question): Promise<boolean> {
  useAsked.getState().asked?.answer(false);
  return new Promise((resolve) => {
    useAsked.setState({ asked: { question, answer: resolve }, open: true });
  });
}

export function ConfirmDialog() {
  const { asked, open } = useAsked();
  const close = (yes: boolean): void => {
    asked?.answer(yes);
    // The words stay while the dialog fades out.
    useAsked.setState({ open: false });
  };
  const question = asked?.question;
  return (
    <Modal
      opened={open}
      onClose={() => close(false)}
      title={question?.title}
      closeButtonProps={{ 'aria-label': 'Close' }}
    >
      <Stack gap="lg">
        <Text size="sm" component="div">
          {question?.body}
        </Text>
        <Group justify="flex-end" gap="sm">
          <Button variant="default" onClick={() => close(false)} data-autofocus>
            Cancel
          </Button>
          <Button color={question?.danger === true ? 'red.9' : 'covey'} onClick={() => close(true)}>
            {question?.action}
          </Button>
        </Group>
      </Stack>
    </Modal>
  );
}
