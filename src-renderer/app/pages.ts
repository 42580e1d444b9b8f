import {
  IconApi,
  IconChecklist,
  IconDevices,
  IconLayoutDashboard,
  IconMessages,
  IconPackages,
  IconSettings,
  IconStack2,
  IconTimeline,
  type Icon,
} from '@tabler/icons-react';
import { lazy, type ComponentType } from 'react';

export interface PageEntry {
  /** In the address: `#/overview`. */
  readonly path: string;
  readonly label: string;
  readonly icon: Icon;
  readonly component: ComponentType;
  readonly load: () => Promise<unknown>;
}

const page = (load: () => Promise<{ default: ComponentType }>): Pick<PageEntry, 'component' | 'load'> => ({
  component: lazy(load),
  load,
});

/** In the order of the navigation; the first is where one begins. Each page is a chunk of its own. */
export const pages: readonly [PageEntry, ...PageEntry[]] = [
  {
    path: 'overview',
    label: 'Overview',
    icon: IconLayoutDashboard,
    ...page(async () => ({ default: (await import('../features/overview/overview-page.tsx')).OverviewPage })),
  },
  {
    path: 'machines',
    label: 'Machines',
    icon: IconDevices,
    ...page(async () => ({ default: (await import('../features/nodes/nodes-page.tsx')).NodesPage })),
  },
  {
    path: 'models',
    label: 'Models',
    icon: IconStack2,
    ...page(async () => ({ default: (await import('../features/models/models-page.tsx')).ModelsPage })),
  },
  {
    path: 'jobs',
    label: 'Jobs',
    icon: IconChecklist,
    ...page(async () => ({ default: (await import('../features/jobs/jobs-page.tsx')).JobsPage })),
  },
  {
    path: 'artifacts',
    label: 'Artifacts',
    icon: IconPackages,
    ...page(async () => ({
      default: (await import('../features/artifacts/artifacts-page.tsx')).ArtifactsPage,
    })),
  },
  {
    path: 'playground',
    label: 'Playground',
    icon: IconMessages,
    ...page(async () => ({
      default: (await import('../features/playground/playground-page.tsx')).PlaygroundPage,
    })),
  },
  {
    path: 'api',
    label: 'API',
    icon: IconApi,
    ...page(async () => ({ default: (await import('../features/api/api-page.tsx')).ApiPage })),
  },
  {
    path: 'events',
    label: 'Events',
    icon: IconTimeline,
    ...page(async () => ({ default: (await import('../features/events/events-page.tsx')).EventsPage })),
  },
  {
    path: 'settings',
    label: 'Settings',
    icon: IconSettings,
    ...page(async () => ({ default: (await import('../features/settings/settings-page.tsx')).SettingsPage })),
  },
];

/** Fetches the code of all pages, so that each of them opens also while the controller is away. */
export async function loadPages(): Promise<void> {
  await Promise.allSettled(pages.map(({ load }) => load()));
}
