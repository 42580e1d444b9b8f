import { Group, Paper, Text, Title } from '@mantine/core';
import type { ReactNode } from 'react';

/** Title, one sentence about what the page is for, what can be done, and the rest. */
export function Page(props: {
  readonly title: string;
  readonly lead?: ReactNode;
  readonly actions?: ReactNode;
  readonly children: ReactNode;
}) {
  return (
    <>
      <div className="page-head">
        <div>
          <Title order={1}>{props.title}</Title>
          {props.lead === undefined ? null : (
            <Text c="dimmed" size="sm" component="div">
              {props.lead}
            </Text>
          )}
        </div>
        {props.actions === undefined ? null : <Group gap="sm">{props.actions}</Group>}
      </div>
      {props.children}
    </>
  );
}

/** A card with a heading. */
export function Section(props: {
  readonly title: string;
  readonly lead?: ReactNode;
  readonly actions?: ReactNode;
  /** Content reaches the edges: tables and lists. */
  readonly flush?: boolean;
  readonly className?: string;
  readonly children: ReactNode;
}) {
  return (
    <Paper
      withBorder
      component="section"
      aria-label={props.title}
      className={`section ${props.className ?? ''}`}
      data-flush={props.flush === true || undefined}
    >
      <div className="section-head">
        <div>
          <Title order={2}>{props.title}</Title>
          {props.lead === undefined ? null : (
            <Text c="dimmed" size="sm" component="div">
              {props.lead}
            </Text>
          )}
        </div>
        {props.actions}
      </div>
      <div className="section-body">{props.children}</div>
    </Paper>
  );
}
