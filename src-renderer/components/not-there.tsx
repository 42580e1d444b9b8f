import { Button } from '@mantine/core';
import type { Icon } from '@tabler/icons-react';
import { hrefTo } from '../app/router.ts';
import { Page } from './page.tsx';
import { EmptyState } from './states.tsx';

/** The page of one thing, when there is no such thing: what else it may be, and the way to all of them. */
export function NotThere(props: {
  /** Where all of them are: its address and its title. */
  readonly page: string;
  readonly of: string;
  readonly icon: Icon;
  readonly title: string;
  readonly all: string;
}) {
  return (
    <Page title={props.of}>
      <EmptyState
        icon={props.icon}
        title={props.title}
        action={
          <Button component="a" href={hrefTo(props.page)} variant="default">
            {props.all}
          </Button>
        }
      >
        It was removed, or the address is of another covey.
      </EmptyState>
    </Page>
  );
}
