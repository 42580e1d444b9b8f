import { Button } from '@mantine/core';
import { IconMapOff } from '@tabler/icons-react';
import { EmptyState } from '../components/states.tsx';
import { Page } from '../components/page.tsx';
import { pages } from './pages.ts';
import { hrefTo } from './router.ts';

export const noPageTitle = 'No such page';

/** For an address that was mistyped, or is of another version. */
export function NoPage() {
  const [first] = pages;
  return (
    <Page title={noPageTitle}>
      <EmptyState
        icon={IconMapOff}
        title="Nothing is at this address"
        action={
          <Button component="a" href={hrefTo(first.path)} variant="default">
            {first.label}
          </Button>
        }
      >
        All pages are in the navigation.
      </EmptyState>
    </Page>
  );
}
