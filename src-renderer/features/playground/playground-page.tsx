import { useEffect, useMemo, useRef, type ReactNode } from 'react';
import { Alert, Button, Select, Text, VisuallyHidden } from '@mantine/core';
import { IconMessages } from '@tabler/icons-react';
import type { DeploymentView } from '#shared/domain/deployment.ts';
import { hrefTo } from '../../app/router.ts';
import { Page } from '../../components/page.tsx';
import { EmptyState } from '../../components/states.tsx';
import { plainText } from '../../format/plain-text.ts';
import { useDeployments } from '../../queries/queries.ts';
import { setChat, clearChat, useChat, type Mode } from './chat-store.ts';
import { Composer } from './composer.tsx';
import { isAnswering } from './conversation.ts';
import { Parameters } from './parameters.tsx';
import classes from './playground.module.css';
import { TurnView } from './turn-view.tsx';

/** Names of the machines of a model, the leader first, each once. */
function machinesOf(deployment: DeploymentView): string[] {
  const stages = [...deployment.stages].sort(
    (a, b) => Number(b.role === 'leader') - Number(a.role === 'leader'),
  );
  return [
    ...new Set(stages.filter((stage) => stage.layers > 0 || stage.role === 'leader').map((s) => s.nodeName)),
  ];
}

/** Talk to any model that is ready, the way apps do: over `/v1`. */
export function PlaygroundPage() {
  const query = useDeployments();
  const chat = useChat();
  const ready = useMemo(
    () =>
      (query.data?.deployments ?? []).filter(
        (deployment) => deployment.status === 'ready' && !deployment.info.embeddingOnly,
      ),
    [query.data],
  );
  const deployment =
    ready.find(({ model }) => model === chat.model) ?? (chat.model === null ? ready[0] : undefined);
  const mode: Mode = chat.mode ?? (deployment?.info.hasChatTemplate === false ? 'text' : 'chat');
  const machines = deployment === undefined ? [] : machinesOf(deployment);

  return (
    <Page
      title="Playground"
      lead={
        <span data-testid="served-by">
          {machines.length > 0
            ? `Served by ${machines.map((name) => plainText(name)).join(' + ')}`
            : 'Talk to a model the way apps do.'}
        </span>
      }
      actions={
        <>
          {chat.turns.length > 0 && (
            <Button variant="default" onClick={clearChat}>
              New conversation
            </Button>
          )}
          <Select
            aria-label="Model"
            placeholder={ready.length === 0 ? 'No model is ready' : 'Choose a model'}
            data={ready.map(({ model }) => ({ value: model, label: plainText(model) }))}
            value={deployment?.model ?? null}
            onChange={(model) => setChat({ model })}
            allowDeselect={false}
            disabled={ready.length === 0}
            w={240}
          />
        </>
      }
    >
      <div className={classes['columns']}>
        <section className={classes['talk']} aria-label="Conversation">
          <Turns empty={<Nothing isAsking={query.isPending} count={ready.length} wanted={chat.model} />} />
          {deployment === undefined ? (
            chat.turns.length > 0 && (
              <Alert color="gray" title={noModelTitle(query.isPending, chat.model, ready.length)}>
                {ready.length === 0
                  ? 'Load one under Models to go on.'
                  : 'Choose another one above to go on.'}
              </Alert>
            )
          ) : (
            <Composer model={deployment.model} mode={mode} machines={machines} />
          )}
        </section>
        <Parameters mode={mode} canChat={deployment?.info.hasChatTemplate ?? true} />
      </div>
    </Page>
  );
}

function noModelTitle(isPending: boolean, wanted: string | null, count: number): string {
  if (isPending) return 'Asking which models are ready …';
  if (wanted !== null && count > 0) return `${plainText(wanted)} is not ready any more`;
  return 'No model is ready';
}

/** Before anything was said: what to do first. */
function Nothing(props: {
  readonly isAsking: boolean;
  readonly count: number;
  readonly wanted: string | null;
}) {
  const { isAsking, count, wanted } = props;
  if (count > 0) {
    return (
      <Text c="dimmed" m="auto" ta="center">
        {wanted === null ? 'Nothing said yet. ' : ''}What you write here stays in this tab.
      </Text>
    );
  }
  return (
    <div className={classes['nothing']}>
      <EmptyState
        icon={IconMessages}
        title={noModelTitle(isAsking, wanted, count)}
        action={
          <Button component="a" href={hrefTo('models')} variant="default">
            Go to Models
          </Button>
        }
      >
        Load one under Models; it can be talked to as soon as it is ready.
      </EmptyState>
    </div>
  );
}

/** What was said. It follows what is being written unless the reader has scrolled up. */
function Turns({ empty }: { readonly empty: ReactNode }) {
  const turns = useChat((state) => state.turns);
  const list = useRef<HTMLDivElement>(null);
  const follows = useRef(true);
  useEffect(() => {
    const element = list.current;
    if (element && follows.current) element.scrollTop = element.scrollHeight;
  }, [turns]);
  const last = turns.at(-1);
  return (
    <>
      <div
        className={classes['turns']}
        ref={list}
        tabIndex={0}
        role="region"
        aria-label="What was said"
        onScroll={(event) => {
          const { scrollTop, clientHeight, scrollHeight } = event.currentTarget;
          follows.current = scrollTop + clientHeight > scrollHeight - 40;
        }}
      >
        {turns.length === 0 ? empty : turns.map((turn) => <TurnView key={turn.id} turn={turn} />)}
      </div>
      <VisuallyHidden role="status">
        {last === undefined || last.role === 'user'
          ? ''
          : isAnswering(turns)
            ? 'The model answers.'
            : last.state === 'failed'
              ? 'The answer failed.'
              : `Answer: ${plainText(last.text, true)}`}
      </VisuallyHidden>
    </>
  );
}
