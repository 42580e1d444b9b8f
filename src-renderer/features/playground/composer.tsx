import { useEffect, useRef, type KeyboardEvent } from 'react';
import { Button, Group, Text, Textarea } from '@mantine/core';
import { IconPlayerStopFilled, IconSend } from '@tabler/icons-react';
import { useApi } from '../../app/api-context.ts';
import {
  areParametersRight,
  editLast,
  sendQuestion,
  setChat,
  stopAnswer,
  useChat,
  type Mode,
} from './chat-store.ts';
import { isAnswering } from './conversation.ts';

const maxCharacters = 200_000;

/** The field to write in. Enter sends, Shift+Enter is a new line, Escape stops an answer. */
export function Composer({
  model,
  mode,
  machines,
}: {
  readonly model: string;
  readonly mode: Mode;
  readonly machines: readonly string[];
}) {
  const api = useApi();
  const chat = useChat();
  const { draft, turns } = chat;
  const isAskable = draft.trim() !== '' && areParametersRight(chat);
  const field = useRef<HTMLTextAreaElement>(null);
  const isBusy = isAnswering(turns);
  const wasBusy = useRef(isBusy);
  useEffect(() => {
    // The button that had the focus is gone.
    if (wasBusy.current && !isBusy && document.activeElement === document.body) field.current?.focus();
    wasBusy.current = isBusy;
  }, [isBusy]);

  const send = (): void => {
    if (!isAskable || isBusy) return;
    void sendQuestion({ api, text: draft, model, mode, machines });
  };
  const onKeyDown = (event: KeyboardEvent<HTMLTextAreaElement>): void => {
    if (event.key === 'Escape' && isBusy) stopAnswer();
    if (event.key !== 'Enter' || event.shiftKey || event.nativeEvent.isComposing) return;
    event.preventDefault();
    send();
  };
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
    >
      <Textarea
        ref={field}
        aria-label={mode === 'chat' ? 'Message' : 'Text to go on from'}
        placeholder={mode === 'chat' ? 'Ask something' : 'Once upon a time'}
        autosize
        minRows={2}
        maxRows={10}
        maxLength={maxCharacters}
        value={draft}
        onChange={(event) => setChat({ draft: event.currentTarget.value })}
        onKeyDown={onKeyDown}
      />
      <Group justify="space-between" mt="xs">
        <Text size="xs" c="dimmed" visibleFrom="xs">
          {areParametersRight(chat)
            ? 'Enter sends, Shift+Enter makes a new line'
            : 'Correct “How it is asked” first'}
        </Text>
        <Group gap="xs" ml="auto">
          {!isBusy && turns.length > 0 && (
            <Button variant="subtle" color="gray" onClick={editLast}>
              Edit last
            </Button>
          )}
          {isBusy ? (
            <Button
              color="red"
              variant="light"
              leftSection={<IconPlayerStopFilled size={16} aria-hidden />}
              onClick={stopAnswer}
            >
              Stop
            </Button>
          ) : (
            <Button type="submit" disabled={!isAskable} leftSection={<IconSend size={16} aria-hidden />}>
              Send
            </Button>
          )}
        </Group>
      </Group>
    </form>
  );
}
