import { AppShell, Burger, Group, NavLink, ScrollArea } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { Suspense, useEffect, useRef } from 'react';
import { ErrorBoundary } from '../components/error-boundary.tsx';
import { LoadingState } from '../components/states.tsx';
import { usePending } from '../queries/queries.ts';
import { useIsStale } from '../stores/connection.ts';
import { ConnectionBanner, ConnectionMark } from './connection-mark.tsx';
import { Brand } from './brand.tsx';
import { loadPages, pages, type PageEntry } from './pages.ts';
import { NoPage, noPageTitle } from './no-page.tsx';
import { hrefTo, usePlace } from './router.ts';
import { PersonMenu } from './person-menu.tsx';

const loadPagesAfterMs = 2_000;

/** Navigation at the side, or behind a button where the window is narrow, and the page. */
export function Shell() {
  const { page } = usePlace();
  const current = pages.find(({ path }) => path === page) ?? (page === '' ? pages[0] : null);
  const path = current?.path ?? page;
  const label = current?.label ?? noPageTitle;
  const [opened, { toggle, close }] = useDisclosure(false);
  const isStale = useIsStale();
  const main = useRef<HTMLElement>(null);
  const shown = useRef(path);
  useEffect(() => {
    document.title = `${label} · Covey`;
    close();
    // For who does not see it: another page has come. Not at the first, where nothing was chosen.
    if (shown.current !== path) main.current?.focus({ preventScroll: true });
    if (shown.current !== path) window.scrollTo({ top: 0 });
    shown.current = path;
  }, [path, label, close]);

  useEffect(() => {
    // After the first page has come with its figures.
    const timer = setTimeout(() => void loadPages(), loadPagesAfterMs);
    return () => clearTimeout(timer);
  }, []);

  const Page = current?.component ?? NoPage;
  return (
    <AppShell
      header={{ height: { base: 52, sm: 0 } }}
      navbar={{ width: 208, breakpoint: 'sm', collapsed: { mobile: !opened } }}
      padding={0}
      transitionDuration={120}
    >
      <a className="skip-link" href="#main" onClick={(event) => skipTo(event, main.current)}>
        Skip to the page
      </a>
      <AppShell.Header hiddenFrom="sm" className="shell-header">
        <Group h="100%" px="sm" gap="sm" wrap="nowrap">
          <Burger
            opened={opened}
            onClick={toggle}
            size="sm"
            aria-label={opened ? 'Close the navigation' : 'Open the navigation'}
          />
          <Brand />
          <span className="spacer" />
          <ConnectionMark />
        </Group>
      </AppShell.Header>
      <AppShell.Navbar className="shell-navbar">
        <AppShell.Section visibleFrom="sm" className="shell-brand">
          <Brand />
        </AppShell.Section>
        <AppShell.Section grow component={ScrollArea} px="xs" py="xs">
          <nav aria-label="Pages">
            {pages.map((entry) => (
              <PageLink key={entry.path} entry={entry} active={entry === current} onClick={close} />
            ))}
          </nav>
        </AppShell.Section>
        <AppShell.Section className="shell-foot">
          <ConnectionMark />
          <span className="spacer" />
          <PersonMenu />
        </AppShell.Section>
      </AppShell.Navbar>
      <AppShell.Main ref={main} id="main" tabIndex={-1} className="shell-main">
        <ConnectionBanner />
        <div className="shell-page" data-stale={isStale || undefined}>
          <ErrorBoundary key={path}>
            <Suspense fallback={<LoadingState what={label} />}>
              <Page />
            </Suspense>
          </ErrorBoundary>
        </div>
      </AppShell.Main>
    </AppShell>
  );
}

function PageLink(props: {
  readonly entry: PageEntry;
  readonly active: boolean;
  readonly onClick: () => void;
}) {
  const { entry, active, onClick } = props;
  const waiting = usePending().data?.pending.length ?? 0;
  const asks = entry.path === 'machines' && waiting > 0;
  return (
    <NavLink
      href={hrefTo(entry.path)}
      label={entry.label}
      leftSection={<entry.icon size={18} stroke={1.7} aria-hidden />}
      rightSection={
        asks ? (
          <span className="count-mark" aria-label={`${waiting} waiting for approval`}>
            {waiting}
          </span>
        ) : null
      }
      active={active}
      aria-current={active ? 'page' : undefined}
      onClick={onClick}
    />
  );
}

function skipTo(event: React.MouseEvent, main: HTMLElement | null): void {
  // The fragment is where the pages are.
  event.preventDefault();
  main?.focus();
}
