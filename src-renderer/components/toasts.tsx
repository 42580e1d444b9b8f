import { Button, Group, Text } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { IconAlertTriangle, IconCheck } from '@tabler/icons-react';
import type { CoveyError } from '#shared/errors.ts';
import { plainText } from '../format/plain-text.ts';

const briefMs = 4_000;
const undoMs = 10_000;

export function toastSuccess(message: string): void {
  notifications.show({
    message: plainText(message),
    color: 'covey',
    icon: <IconCheck size={16} aria-hidden />,
    autoClose: briefMs,
    withBorder: true,
    closeButtonProps: { 'aria-label': 'Close' },
  });
}

/** What could not be done and why; it stays until it is closed. */
export function toastError(title: string, error: CoveyError): void {
  if (error.code === 'cancelled') return;
  const reasons = error.details.reasons ?? [];
  notifications.show({
    title,
    message: (
      <>
        <Text size="sm">{plainText(error.message)}</Text>
        {reasons.slice(0, 4).map((reason) => (
          <Text size="sm" key={`${reason.code} ${reason.message}`}>
            {plainText(reason.message)}
          </Text>
        ))}
      </>
    ),
    color: 'red.9',
    icon: <IconAlertTriangle size={16} aria-hidden />,
    autoClose: false,
    withBorder: true,
    closeButtonProps: { 'aria-label': 'Close' },
    role: 'alert',
  });
}

/** Says what was done and offers to take it back. */
export function toastUndo(message: string, undo: () => void): void {
  const id = crypto.randomUUID();
  notifications.show({
    id,
    message: (
      <Group justify="space-between" wrap="nowrap" gap="sm">
        <Text size="sm">{plainText(message)}</Text>
        <Button
          size="compact-sm"
          variant="light"
          onClick={() => {
            notifications.hide(id);
            undo();
          }}
        >
          Undo
        </Button>
      </Group>
    ),
    color: 'covey',
    autoClose: undoMs,
    withBorder: true,
    closeButtonProps: { 'aria-label': 'Close' },
  });
}
