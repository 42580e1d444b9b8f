import { Component, type ReactNode } from 'react';
import { CoveyError } from '#shared/errors.ts';
import { ErrorState } from './states.tsx';

interface Failed {
  readonly error: CoveyError | null;
}

/** A part that fails to show takes nothing else with it. */
export class ErrorBoundary extends Component<{ readonly children: ReactNode }, Failed> {
  override state: Failed = { error: null };

  static getDerivedStateFromError(thrown: unknown): Failed {
    return { error: CoveyError.from(thrown) };
  }

  override render(): ReactNode {
    const { error } = this.state;
    if (error === null) return this.props.children;
    return (
      <ErrorState
        title="This part of the page failed"
        error={error}
        onRetry={() => this.setState({ error: null })}
      />
    );
  }
}
