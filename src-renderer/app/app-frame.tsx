import { MantineProvider } from '@mantine/core';
import { Notifications } from '@mantine/notifications';
import { QueryClientProvider, type QueryClient } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import type { ApiClient } from '../api-client/api-client.ts';
import { ConfirmDialog } from '../components/confirm.tsx';
import { ApiContext } from './api-context.ts';
import { cssVariables, theme } from './theme.ts';

export interface AppFrameProps {
  readonly api: ApiClient;
  readonly queries: QueryClient;
  /** Of the page's policy, for the styles that are made while it runs. */
  readonly nonce: string;
}

/** What both pages stand in: looks, queries, messages and the question before what cannot be undone. */
export function AppFrame(props: AppFrameProps & { readonly children: ReactNode }) {
  const { api, queries, nonce, children } = props;
  return (
    <MantineProvider
      theme={theme}
      defaultColorScheme="auto"
      cssVariablesResolver={cssVariables}
      getStyleNonce={() => nonce}
      deduplicateCssVariables={false}
    >
      <QueryClientProvider client={queries}>
        <ApiContext value={api}>
          <Notifications position="bottom-right" limit={4} />
          {children}
          <ConfirmDialog />
        </ApiContext>
      </QueryClientProvider>
    </MantineProvider>
  );
}
