import { useEffect, useMemo, useState } from 'react';
import { SegmentedControl } from '@mantine/core';
import { useDebouncedValue } from '@mantine/hooks';
import { usePlace } from '../../app/router.ts';
import { Page } from '../../components/page.tsx';
import { EventPanel } from './event-panel.tsx';
import { noFilter, type EventFilter } from './event-window.ts';
import { Filters } from './filters.tsx';
import { LogPanel } from './log-panel.tsx';

/** What has happened, and what the machines' programs say. */
export function EventsPage() {
  const { query } = usePlace();
  const [what, setWhat] = useState<'events' | 'logs'>('events');
  const linked = query.toString();
  const [filter, setFilter] = useState<EventFilter>(() => fromQuery(query));
  useEffect(() => {
    if (linked !== '') setFilter(fromQuery(new URLSearchParams(linked)));
  }, [linked]);
  const [text] = useDebouncedValue(filter.text, 300);
  const settled = useMemo(() => ({ ...filter, text: text.trim() }), [filter, text]);
  return (
    <Page
      title="Events and logs"
      lead={
        what === 'events'
          ? 'What has happened in the covey; the last 100,000 events are kept.'
          : 'What the programs on the machines say, for finding out why something happened.'
      }
      actions={
        <SegmentedControl
          aria-label="What to show"
          data={[
            { value: 'events', label: 'Events' },
            { value: 'logs', label: 'Logs' },
          ]}
          value={what}
          onChange={setWhat}
        />
      }
    >
      <Filters filter={filter} forEvents={what === 'events'} onChange={setFilter} />
      {what === 'events' ? (
        <EventPanel filter={settled} onClear={() => setFilter(noFilter)} />
      ) : (
        <LogPanel filter={settled} onClear={() => setFilter(noFilter)} />
      )}
    </Page>
  );
}

/** `#/events?node=ID&deployment=ID&job=ID`: links from elsewhere. */
function fromQuery(query: URLSearchParams): EventFilter {
  return {
    ...noFilter,
    nodeId: query.get('node'),
    deploymentId: query.get('deployment'),
    jobId: query.get('job'),
  };
}
