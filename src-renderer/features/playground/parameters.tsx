import { SegmentedControl, Stack, Text, Textarea } from '@mantine/core';
import { useMediaQuery } from '@mantine/hooks';
import { NumberField } from '../../components/number-field.tsx';
import { ranges, setChat, useChat, type Mode } from './chat-store.ts';
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
        <NumberField
          label="Temperature"
          description="0 always takes the likeliest word; higher is freer."
          range={ranges.temperature}
          step={0.1}
          value={temperature}
          error={temperature === null ? 'A number from 0 to 5.' : undefined}
          onChange={(value) => setChat({ temperature: value })}
        />
        <NumberField
          label="Tokens at most"
          description="Empty: until the model ends by itself."
          range={ranges.maxTokens}
          step={64}
          value={maxTokens}
          onChange={(value) => setChat({ maxTokens: value })}
        />
      </Stack>
    </details>
  );
}
