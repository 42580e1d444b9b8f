import { memo } from 'react';
import { Anchor } from '@mantine/core';
import { hrefTo } from '../../app/router.ts';
import { LevelMark } from '../../components/status.tsx';
import { formatDateTime } from '../../format/format.ts';
import { plainText } from '../../format/plain-text.ts';
import { useNodes } from '../../queries/queries.ts';
import { withSettingName } from '../settings/setting-name.ts';
import type { StoredEvent } from './event-window.ts';
import classes from './events.module.css';

export const EventRow = memo(function EventRow({ event }: { readonly event: StoredEvent }) {
  const node = useNodes().data?.nodes.find(({ id }) => id === event.nodeId);
  return (
    <>
      <time className={classes['time']} dateTime={new Date(event.at).toISOString()}>
        {formatDateTime(event.at)}
      </time>
      <LevelMark level={event.level} />
      <span className={classes['message']}>
        {plainText(withSettingName(event.message))}
        <span className={classes['kind']}>{plainText(event.kind)}</span>
        {node !== undefined && (
          <Anchor href={hrefTo('machines', node.id)} size="xs" className={classes['about'] ?? ''}>
            {plainText(node.name)}
          </Anchor>
        )}
      </span>
    </>
  );
});
