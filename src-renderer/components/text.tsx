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

/**
 * `3 min ago`; the moment itself on hover. `light`: for rows of long tables, where a tooltip of ours is most of the
 * work of drawing one.
 */
export function Ago({ at, light = false }: { readonly at: number; readonly light?: boolean }) {
  const now = useNow();
  const words = formatAgo(at, now);
  const attributes = { dateTime: new Date(at).toISOString(), className: 'nowrap' };
  if (light) {
    return (
      <time {...attributes} title={formatDateTime(at)}>
        {words}
      </time>
    );
  }
  return (
    <Tooltip label={formatDateTime(at)}>
      <time {...attributes}>{words}</time>
    </Tooltip>
  );
}
