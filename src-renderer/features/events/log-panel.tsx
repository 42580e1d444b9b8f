import { useEffect, useMemo, useRef, useState } from 'react';
import { Button, Switch } from '@mantine/core';
import { IconDownload, IconFileText } from '@tabler/icons-react';
import { useVirtualizer } from '@tanstack/react-virtual';
import type { LogLine } from '#shared/api/schema.ts';
import { Section } from '../../components/page.tsx';
import { EmptyState, ErrorState, LoadingRows } from '../../components/states.tsx';
import { LevelMark } from '../../components/status.tsx';
import { formatDateTime, formatTime, plural } from '../../format/format.ts';
import { plainText } from '../../format/plain-text.ts';
import { saveAs } from './download.tsx';
import { isFiltered, type EventFilter } from './event-window.ts';
import { useLogLines } from './log-lines.ts';
import classes from './events.module.css';

const rowHeight = 25;
const bottomPx = 40;

/** Lines of the machines' programs as the controller has them, oldest first, like in a terminal. */
export function LogPanel({
  filter,
  onClear,
}: {
  readonly filter: EventFilter;
  readonly onClear: () => void;
}) {
  const [follows, setFollows] = useState(true);
  const { lines: all, error } = useLogLines(follows);
  const lines = useMemo(() => (all ?? []).filter((line) => fits(line, filter)), [all, filter]);

  const scroller = useRef<HTMLDivElement>(null);
  const wasAtBottom = useRef(true);
  const virtualizer = useVirtualizer({
    count: lines.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => rowHeight,
    overscan: 20,
  });
  const last = lines.at(-1);
  useEffect(() => {
    if (follows && wasAtBottom.current && lines.length > 0) {
      virtualizer.scrollToIndex(lines.length - 1, { align: 'end' });
    }
  }, [follows, last, lines.length, virtualizer]);

  return (
    <Section
      title="Logs"
      flush
      lead={all === null ? 'Reading' : `${plural(lines.length, 'line')}, the newest at the bottom`}
      actions={
        <div className={classes['tools']}>
          <Switch
            label="Follow"
            checked={follows}
            onChange={(event) => setFollows(event.currentTarget.checked)}
          />
          <Button
            variant="default"
            size="compact-sm"
            disabled={lines.length === 0}
            leftSection={<IconDownload size={16} aria-hidden />}
            onClick={() => saveAs('covey.log', lines.map(textOf), 'text/plain')}
          >
            Download
          </Button>
        </div>
      }
    >
      {error !== null && (
        <div className={classes['trouble']}>
          <ErrorState title="The logs do not come any more" error={error} />
        </div>
      )}
      {all === null ? (
        error === null && <LoadingRows />
      ) : lines.length === 0 ? (
        <EmptyState
          icon={IconFileText}
          title="No line fits"
          action={
            isFiltered(filter) ? (
              <Button variant="default" onClick={onClear}>
                Clear the filter
              </Button>
            ) : null
          }
        >
          Lines show here as soon as a machine&rsquo;s program writes some.
        </EmptyState>
      ) : (
        <div
          ref={scroller}
          className={classes['scroller']}
          tabIndex={0}
          role="region"
          aria-label="Log lines"
          onScroll={({ currentTarget: { scrollTop, clientHeight, scrollHeight } }) => {
            wasAtBottom.current = scrollTop + clientHeight > scrollHeight - bottomPx;
          }}
        >
          <div role="list" className={classes['rows']} style={{ height: virtualizer.getTotalSize() }}>
            {virtualizer.getVirtualItems().map((item) => (
              <div
                key={item.key}
                role="listitem"
                data-index={item.index}
                ref={virtualizer.measureElement}
                className={classes['logRow']}
                style={{ transform: `translateY(${item.start}px)` }}
              >
                <Line line={lines[item.index] as LogLine} />
              </div>
            ))}
          </div>
        </div>
      )}
    </Section>
  );
}

function Line({ line }: { readonly line: LogLine }) {
  return (
    <>
      <time dateTime={new Date(line.at).toISOString()} title={formatDateTime(line.at)}>
        {formatTime(line.at)}
      </time>
      <LevelMark level={line.level} />
      <span className={classes['logSource']}>
        {plainText(line.nodeName)} {plainText(line.source)}
      </span>
      <span className={classes['logMessage']}>{plainText(line.message)}</span>
    </>
  );
}

function fits(line: LogLine, { nodeId, levels, text }: EventFilter): boolean {
  const isNode = nodeId === null || line.nodeId === nodeId;
  const isLevel = levels.length === 0 || (levels as readonly string[]).includes(line.level);
  return isNode && isLevel && (text === '' || line.message.toLowerCase().includes(text.toLowerCase()));
}

function textOf({ at, level, nodeName, source, message }: LogLine): string {
  return `${new Date(at).toISOString()} ${level} ${nodeName} ${source} ${message}\n`;
}
