import { Tooltip } from '@mantine/core';
import { useStatus } from '../queries/queries.ts';
import { formatAgo, formatTime } from '../format/format.ts';
import { plainText } from '../format/plain-text.ts';
import { useNow } from '../stores/clock.ts';
import { useConnection } from '../stores/connection.ts';

const words = { connecting: 'Connecting', live: 'Live', lost: 'Not connected' } as const;

/** Whether what is shown is of now, and of which controller. */
export function ConnectionMark() {
  const { phase } = useConnection((state) => state.connection);
  const name = useStatus().data?.name;
  const who = name === undefined ? '' : plainText(name);
  return (
    <Tooltip label={phase === 'live' ? `Connected to ${who || 'the controller'}` : words[phase]}>
      <span className="connection-mark" data-phase={phase} role="status">
        <span className="dot" aria-hidden />
        <span className="connection-name">{phase === 'live' && who !== '' ? who : words[phase]}</span>
        {phase === 'live' ? <span className="visually-hidden"> {words.live}</span> : null}
      </span>
    </Tooltip>
  );
}

/** Says over every page that it shows the past. */
export function ConnectionBanner() {
  const connection = useConnection((state) => state.connection);
  const now = useNow();
  if (connection.phase !== 'lost') return null;
  return (
    <div className="stale-banner" role="alert">
      <strong>Not connected.</strong>{' '}
      <span>
        {connection.why} What you see is from {formatTime(connection.since)},{' '}
        {formatAgo(connection.since, now)}. This page comes back by itself.
      </span>
    </div>
  );
}
