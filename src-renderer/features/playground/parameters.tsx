import { NumberInput, SegmentedControl, Stack, Text, Textarea } from '@mantine/core';
import { useMediaQuery } from '@mantine/hooks';
import { setChat, useChat, type Mode } from './chat-store.ts';
import classes from './playground.module.css';

/** How the model is asked. Open beside the conversation, or folded below it where there is no room. */
export function Parameters({ mode, canChat }: { readonly mode: Mode; readonly canChat: boolean }) {
  const { temperature, maxTokens, systemPrompt } = useChat();
  const hasRoom = useMediaQuery('(min-width: 62em)', true, { getInitialValueInEffect: false });
  return (
    <details className={classes['parameters']} open={hasRoom}>
      <summary>How it is asked</summary>
      <Stack gap="md" mt="sm">
        <div>
          <SegmentedControl
            fullWidth
            aria-label="Kind of request"
            data={[
              { value: 'chat', label: 'Chat' },
              { value: 'text', label: 'Continue text' },
            ]}
            value={mode}
            onChange={(value) => setChat({ mode: value })}
          />
          {!canChat && (
            <Text size="xs" mt={4}>
              This model has no chat template: it was made to continue text.
            </Text>
          )}
        </div>
        {mode === 'chat' && (
          <Textarea
            label="System prompt"
            description="Said to the model before everything else."
            autosize
            minRows={2}
            maxRows={8}
            maxLength={100_000}
            value={systemPrompt}
            onChange={(event) => setChat({ systemPrompt: event.currentTarget.value })}
          />
        )}
        <NumberInput
          label="Temperature"
          description="0 always takes the likeliest word; higher is freer."
          min={0}
          max={5}
          step={0.1}
          decimalScale={2}
          value={temperature}
          onChange={(value) => {
            if (typeof value === 'number') setChat({ temperature: value });
          }}
        />
        <NumberInput
          label="Tokens at most"
          description="Empty: until the model ends by itself."
          min={1}
          max={1_000_000}
          step={64}
          allowDecimal={false}
          value={maxTokens ?? ''}
          onChange={(value) => setChat({ maxTokens: typeof value === 'number' ? value : null })}
        />
      </Stack>
    </details>
  );
}
