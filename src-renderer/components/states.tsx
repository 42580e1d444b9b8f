import { Alert, Button, List, Loader, Skeleton, Stack, Text } from '@mantine/core';
import { IconAlertTriangle, type Icon } from '@tabler/icons-react';
import type { ReactNode } from 'react';
import { CoveyError, type ErrorBody } from '#shared/errors.ts';
import { plainText } from '../format/plain-text.ts';

export function LoadingState({ what }: { readonly what: string }) {
  return (
    <div className="state" role="status">
      <Loader size="sm" aria-hidden />
      <Text c="dimmed" size="sm">
        Loading {what}
      </Text>
    </div>
  );
}

/** Rows that are on their way. */
export function LoadingRows({ rows = 3 }: { readonly rows?: number }) {
  return (
    <Stack gap="sm" role="status" aria-label="Loading">
      {Array.from({ length: rows }, (_, index) => (
        <Skeleton key={index} height={18} radius="sm" />
      ))}
    </Stack>
  );
}

/** Nothing is there: says what would be and what to do about it. */
export function EmptyState(props: {
  readonly icon: Icon;
  readonly title: string;
  readonly children: ReactNode;
  readonly action?: ReactNode;
}) {
  return (
    <div className="state">
      <props.icon size={32} stroke={1.4} className="state-icon" aria-hidden />
      <Text fw={600}>{props.title}</Text>
      <Text c="dimmed" size="sm" maw={460} ta="center" component="div">
        {props.children}
      </Text>
      {props.action === undefined || props.action === null ? null : (
        <div className="state-action">{props.action}</div>
      )}
    </div>
  );
}

/** A failure as the catalogue describes it, with its reasons, and a way on. */
export function ErrorState(props: {
  readonly title: string;
  readonly error: CoveyError | ErrorBody;
  readonly onRetry?: () => void;
  readonly action?: ReactNode;
}) {
  const { error } = props;
  const reasons = (error instanceof CoveyError ? error.details.reasons : error.reasons) ?? [];
  return (
    <Alert color="red" title={props.title} icon={<IconAlertTriangle size={18} aria-hidden />} role="alert">
      <Stack gap="xs" align="flex-start">
        <Text size="sm">{plainText(error.message)}</Text>
        {reasons.length === 0 ? null : (
          <List size="sm">
            {reasons.map((reason) => (
              <List.Item key={`${reason.code} ${reason.field ?? ''} ${reason.message}`}>
                {plainText(reason.message)}
              </List.Item>
            ))}
          </List>
        )}
        {props.onRetry === undefined ? null : (
          <Button size="compact-sm" variant="default" onClick={props.onRetry}>
            Try again
          </Button>
        )}
        {props.action}
      </Stack>
    </Alert>
  );
}
