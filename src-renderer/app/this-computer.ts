import type { MouseEvent } from 'react';
import type { ShellBridge } from '#shared/api/shell.ts';

/** For a link to "This computer": the window of the app keeps account of the page that it shows, so it is asked. */
export function openThisComputer(event: MouseEvent): void {
  const { coveyShell } = window as { coveyShell?: ShellBridge };
  if (!coveyShell) return;
  event.preventDefault();
  void coveyShell.open('machine');
}
