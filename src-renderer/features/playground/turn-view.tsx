import { memo } from 'react';
import { Alert, Badge, CopyButton, Button, Group, Loader, Text } from '@mantine/core';
import { formatMs, formatTokensPerS, plural } from '../../format/format.ts';
import { plainText } from '../../format/plain-text.ts';
import { tokensPerS, type Turn } from './conversation.ts';
import classes from './playground.module.css';

/** One thing said. Everything is text: what a model writes is never markup here. */
export const TurnView = memo(function TurnView({ turn }: { readonly turn: Turn }) {
  const isAnswer = turn.role === 'assistant';
  return (
    <article className={classes['turn']} data-role={turn.role} aria-label={isAnswer ? 'Answer' : 'You'}>
      {turn.thought !== '' && (
        <details className={classes['thought']} open={turn.text === ''}>
          <summary>Thoughts</summary>
          <div className={classes['text']}>{plainText(turn.thought, true)}</div>
        </details>
      )}
      {turn.text !== '' && (
        // Models begin with a space more often than not.
        <div className={classes['text']}>{plainText(turn.text.trimStart(), true)}</div>
      )}
      {turn.state === 'waiting' && (
        <Group gap="xs">
          <Loader size="xs" type="dots" />
          <Text size="sm" c="dimmed">
            Reading the question …
          </Text>
        </Group>
      )}
      {turn.error !== null && (
        <Alert color="red" variant="light" mt="xs" title="The answer failed">
          {plainText(turn.error)}
        </Alert>
      )}
      {isAnswer && turn.state !== 'waiting' && <Facts turn={turn} />}
    </article>
  );
});

function Facts({ turn }: { readonly turn: Turn }) {
  const speed = tokensPerS(turn);
  const facts = [
    plural(turn.answerTokens ?? turn.pieces, 'token'),
    ...(speed === null ? [] : [formatTokensPerS(speed)]),
    ...(turn.firstTokenAt === null ? [] : [`first after ${formatMs(turn.firstTokenAt - turn.askedAt)}`]),
    ...(turn.machines.length === 0 ? [] : [`by ${turn.machines.map((name) => plainText(name)).join(' + ')}`]),
  ];
  return (
    <div className={classes['facts']}>
      <span data-testid="facts">{facts.join(' · ')}</span>
      {turn.state === 'stopped' && (
        <Badge variant="outline" color="gray" size="sm" tt="none">
          stopped
        </Badge>
      )}
      {turn.finishReason === 'length' && (
        <Badge variant="outline" color="gray" size="sm" tt="none">
          reached the limit of tokens
        </Badge>
      )}
      {turn.text !== '' && turn.state !== 'running' && (
        <CopyButton value={turn.text}>
          {({ copied, copy }) => (
            <Button variant="subtle" size="compact-xs" color="gray" onClick={copy}>
              {copied ? 'Copied' : 'Copy'}
            </Button>
          )}
        </CopyButton>
      )}
    </div>
  );
}
