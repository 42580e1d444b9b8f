import { IconListDetails } from '@tabler/icons-react';
import { useMemo } from 'react';
import type { ApiEvent } from '#shared/api/schema.ts';
import { hrefTo } from '../../app/router.ts';
import { EmptyState, ErrorState, LoadingRows } from '../../components/states.tsx';
import { Section } from '../../components/page.tsx';
import { LevelMark } from '../../components/status.tsx';
import { Ago } from '../../components/text.tsx';
import { plainText } from '../../format/plain-text.ts';
import { useRead } from '../../queries/queries.ts';
import { useLive } from '../../stores/live.ts';
import { withSettingName } from '../settings/setting-name.ts';

const shown = 8;

/** The last things that happened: those that were stored when the page came, and what the stream brought since. */
export function RecentEvents() {
  const stored = useRead('eventHistory', { query: { limit: String(shown) } });
  const since = useLive((state) => state.events);
  const events = useMemo(() => newest(since, stored.data?.events ?? []), [since, stored.data]);
  return (
    <Section
      title="Recent events"
      flush
      actions={
        <a className="section-link" href={hrefTo('events')}>
          All events
        </a>
      }
    >
      {events.length > 0 ? (
        <ul className="events">
          {events.map((event) => (
            <li key={event.id}>
              <LevelMark level={event.level} />
              <span className="event-words">{plainText(withSettingName(event.message))}</span>
              <span className="figure-unit">
                <Ago at={event.at} />
              </span>
            </li>
          ))}
        </ul>
      ) : stored.isError ? (
        <div className="section-inset">
          <ErrorState
            title="The events cannot be shown"
            error={stored.error}
            onRetry={() => void stored.refetch()}
          />
        </div>
      ) : stored.isPending ? (
        <div className="section-inset">
          <LoadingRows rows={5} />
        </div>
      ) : (
        <EmptyState icon={IconListDetails} title="Nothing has happened yet">
          Joins, loads, losses and what was refused are listed here.
        </EmptyState>
      )}
    </Section>
  );
}

function newest(since: readonly ApiEvent[], stored: readonly ApiEvent[]): readonly ApiEvent[] {
  const byId = new Map([...stored, ...since].map((event) => [event.id ?? 0, event]));
  return [...byId.values()].sort((a, b) => (b.id ?? 0) - (a.id ?? 0)).slice(0, shown);
}
