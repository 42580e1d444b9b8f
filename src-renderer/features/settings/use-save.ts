import { useMutation, useQueryClient } from '@tanstack/react-query';
import type { SettingsView } from '#shared/api/access.ts';
import type { CoveyError } from '#shared/errors.ts';
import type { Settings } from '#shared/settings.ts';
import { useApi } from '../../app/api-context.ts';
import { toastError, toastUndo } from '../../components/toasts.tsx';
import { patchBetween, withDrafts, type Drafts } from './draft.ts';

export interface Change {
  readonly before: Settings;
  readonly drafts: Drafts;
  /** For the message: "Port was saved." */
  readonly what: string;
}

/** Saves settings, shows what became of them at once, and offers to take it back. */
export function useSave() {
  const api = useApi();
  const client = useQueryClient();
  const apply = async (patch: Record<string, unknown>): Promise<SettingsView> => {
    const view = await api.call('setSettings', { body: patch });
    client.setQueryData<SettingsView>(['settings'], view);
    void client.invalidateQueries({ queryKey: ['self'] });
    return view;
  };
  return useMutation<SettingsView, CoveyError, Change>({
    mutationFn: ({ before, drafts }) => apply(patchBetween(before, withDrafts(before, drafts))),
    onSuccess: (view, { before, what }) => {
      const back = patchBetween(view.settings, before);
      toastUndo(`${what} was saved.`, () => {
        apply(back).catch((error: CoveyError) => toastError('Could not take it back', error));
      });
    },
    onError: (error, { what }) => toastError(`${what} was not saved`, error),
  });
}
