import { Tooltip } from '@mantine/core';
import { formatAgo, formatDateTime } from '../format/format.ts';
import { plainText } from '../format/plain-text.ts';
import { useNow } from '../stores/clock.ts';

/** A name that came from another machine or a file: one line, cut where there is no room, whole on hover. */
export function Name({ children }: { readonly children: string }) {
  const text = plainText(children);
  return (
    <bdi className="name" title={text}>
      {text}
    </bdi>
  );
}

/** `3 min ago`; the moment itself on hover. */
export function Ago({ at }: { readonly at: number }) {
  const now = useNow();
  return (
    <Tooltip label={formatDateTime(at)}>
      <time dateTime={new Date(at).toISOString()} className="nowrap">
        {formatAgo(at, now)}
      </time>
    </Tooltip>
  );
}
