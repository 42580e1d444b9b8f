import { networkInterfaces } from 'node:os';
import type { SettingsView } from '#shared/api/access.ts';
import type { Settings } from '#shared/settings.ts';
import { differences } from './merge.ts';
import type { SettingsStore } from './settings-store.ts';

/** What LAN access has to say about the settings; see the controller's gateway. */
export interface LanPort {
  readonly addresses: readonly string[];
  readonly certificate: SettingsView['lanCertificate'];
  readonly problems: readonly string[];
  /** @throws CoveyError `lan_needs_key` */
  allow(next: Settings): void;
  /** Resolves when the settings of now are in effect, or `problems` say why not. */
  settled(): Promise<void>;
}

/** Settings as `/api/settings` shows and changes them. */
export interface SettingsPort {
  view(): SettingsView;
  patch(patch: unknown): Promise<SettingsView>;
}

export function createSettingsPort(options: {
  readonly store: SettingsStore;
  /** null: this machine is a worker, or its gateway is not up yet. */
  readonly lan: () => LanPort | null;
  /** Hears one sentence for each setting that was changed. */
  readonly onChanged?: (sentence: string) => void;
}): SettingsPort {
  const { store } = options;
  const view = (): SettingsView => {
    const lan = options.lan();
    const useless = lan === null && store.current.lan.enabled;
    return {
      settings: store.current,
      file: store.file,
      lanAddresses: [...(lan?.addresses ?? [])],
      lanCertificate: lan?.certificate ?? null,
      problems: [
        ...(useless
          ? ['LAN access (lan.enabled) is for controllers: this machine is a worker.']
          : (lan?.problems ?? [])),
        ...networkProblems(store.current),
      ],
    };
  };
  return {
    view,
    async patch(patch) {
      const before = store.current;
      const lan = options.lan();
      const after = await store.patch(patch, (next) => lan?.allow(next));
      for (const change of differences(before, after)) {
        const [from, to] = [inWords(change.before), inWords(change.after)];
        options.onChanged?.(`The setting ${change.key} was changed from ${from} to ${to}.`);
      }
      await lan?.settled();
      return view();
    },
  };
}

/** As it is written in the file; what is not set has no word there. */
function inWords(value: unknown): string {
  return value === null || value === undefined ? 'none' : JSON.stringify(value);
}

/** One that comes and goes, such as a VPN's, may be set while it is away. */
function networkProblems({ lend: { network } }: Settings): string[] {
  if (network === null || (networkInterfaces()[network.interface] ?? []).length > 0) return [];
  const there = Object.keys(networkInterfaces());
  return [
    `The network for programs (lend.network) is not there now: no interface ${network.interface} has an address. ` +
      (there.length === 0 ? 'There is none.' : `There are: ${there.join(', ')}.`),
  ];
}
