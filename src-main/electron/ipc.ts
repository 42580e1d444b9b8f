import { ipcMain, type IpcMainInvokeEvent } from 'electron';
import { z } from 'zod';
import type { DesktopRole, ShellPlace } from '#shared/api/shell.ts';
import type { Logger } from '#shared/lib/logger.ts';
import type { RoleNode } from '../roles/role-node.ts';
import { channels } from './channels.ts';
import type { MainWindow } from './window.ts';

const roleSchema = z.enum(['controller', 'lend', 'both']);
const placeSchema = z.enum(['dashboard', 'machine']);

export interface ShellCalls {
  readonly window: MainWindow;
  readonly node: () => RoleNode | null;
  readonly role: () => DesktopRole | null;
  readonly chooseRole: (role: DesktopRole) => Promise<void>;
  readonly open: (place: ShellPlace) => Promise<void>;
  readonly logger: Logger;
}

/**
 * Answers pages. Every call is checked: it must come from the top frame of our window, at this machine's API; the
 * right to this machine, and the choice of its role, go to the page "This computer" alone.
 */
export function answerPages(calls: ShellCalls): void {
  const handle = (channel: string, pages: 'all' | 'machine', answer: (body: unknown) => unknown): void => {
    ipcMain.handle(channel, (event, body: unknown) => {
      if (!isOurs(event, calls, pages)) {
        calls.logger.warn('a page asked for what it may not', { channel });
        throw new Error('This page may not ask for that.');
      }
      return answer(body);
    });
  };
  handle(channels.localToken, 'machine', () => calls.node()?.local.token ?? null);
  handle(channels.role, 'machine', () => calls.role());
  handle(channels.chooseRole, 'machine', (body) => calls.chooseRole(roleSchema.parse(body)));
  handle(channels.open, 'all', (body) => calls.open(placeSchema.parse(body)));
}

function isOurs(
  { sender, senderFrame }: IpcMainInvokeEvent,
  { window, node }: ShellCalls,
  pages: 'all' | 'machine',
): boolean {
  const { browserWindow } = window;
  if (!browserWindow || sender !== browserWindow.webContents) return false;
  if (!senderFrame || senderFrame !== sender.mainFrame) return false;
  const address = node()?.apiAddress ?? null;
  const url = URL.parse(senderFrame.url);
  if (address === null || url?.origin !== address) return false;
  return pages === 'all' || url.pathname === '/machine';
}
