import type { LendRuleName } from '#shared/domain/lend.ts';

/** How a setting is shown and changed. `null` is empty where the setting may be nothing. */
export type FieldKind =
  | { readonly type: 'switch' }
  | { readonly type: 'number'; readonly unit: string; readonly empty: string }
  /** Kept in bytes, shown in a larger unit. */
  | { readonly type: 'bytes'; readonly unit: 'GiB' | 'MiB/s'; readonly empty: string }
  | { readonly type: 'port' }
  | { readonly type: 'words'; readonly placeholder: string }
  | { readonly type: 'path'; readonly placeholder: string }
  | {
      readonly type: 'choice';
      readonly options: readonly { readonly value: string; readonly label: string }[];
    }
  | { readonly type: 'schedule' }
  | { readonly type: 'devices' }
  | { readonly type: 'network' };

export interface Field {
  /** As `covey config` has it: `lan.port`. */
  readonly path: string;
  readonly label: string;
  /** What it does, for a person who has never seen it. */
  readonly help: string;
  readonly kind: FieldKind;
  /** The rule of lending that it sets: the machine may be unable to sense it. */
  readonly rule?: LendRuleName;
}

export interface FieldGroup {
  readonly id: string;
  readonly title: string;
  readonly lead?: string;
  readonly fields: readonly Field[];
}

const noLimit = 'No limit';

export const lendGroups: readonly FieldGroup[] = [
  {
    id: 'lend',
    title: 'Lend this machine',
    lead: 'Whether and when the covey may use the machine that you are looking at. It keeps to this by itself.',
    fields: [
      {
        path: 'lend.enabled',
        label: 'Lend this machine',
        help: 'Off: it stays a member that gets no work.',
        kind: { type: 'switch' },
        rule: 'switch',
      },
      {
        path: 'lend.schedule',
        label: 'Only at these hours',
        help: 'In the local time of the machine. A range over midnight belongs to the day on which it begins.',
        kind: { type: 'schedule' },
        rule: 'schedule',
      },
      {
        path: 'lend.idleMinutes',
        label: 'Only when nobody uses it for',
        help: 'Minutes without keyboard or mouse. Empty: whether somebody sits there or not.',
        kind: { type: 'number', unit: 'minutes', empty: 'Does not matter' },
        rule: 'idle',
      },
    ],
  },
  {
    id: 'give-way',
    title: 'Give way to its owner',
    lead: 'While one of these holds, what runs is finished within 30 seconds and goes on elsewhere.',
    fields: [
      {
        path: 'lend.giveWay.onBattery',
        label: 'On battery',
        help: 'While it is not plugged in.',
        kind: { type: 'switch' },
        rule: 'battery',
      },
      {
        path: 'lend.giveWay.fullScreen',
        label: 'A full-screen program',
        help: 'While a game, a film or a presentation fills the screen.',
        kind: { type: 'switch' },
        rule: 'full-screen',
      },
      {
        path: 'lend.giveWay.programs',
        label: 'These programs',
        help: 'While one of them runs. Names without folders; capitals do not matter.',
        kind: { type: 'words', placeholder: 'blender, resolve' },
        rule: 'program',
      },
      {
        path: 'lend.giveWay.hotCelsius',
        label: 'When it gets hot',
        help: 'While its hottest sensor reads this or more.',
        kind: { type: 'number', unit: '°C', empty: 'Never' },
        rule: 'hot',
      },
    ],
  },
  {
    id: 'limits',
    title: 'How much it lends',
    lead: 'What the covey may take at most. Checked before a model is placed, and again after it was loaded.',
    fields: [
      {
        path: 'lend.limits.cpuThreads',
        label: 'CPU threads',
        help: 'For one engine.',
        kind: { type: 'number', unit: 'threads', empty: noLimit },
      },
      {
        path: 'lend.limits.ramBytes',
        label: 'Memory',
        help: 'For all that the covey runs here.',
        kind: { type: 'bytes', unit: 'GiB', empty: noLimit },
      },
      {
        path: 'lend.limits.vramBytes',
        label: 'GPU memory',
        help: 'By device. 0: the device is not lent.',
        kind: { type: 'devices' },
      },
      {
        path: 'lend.limits.diskBytes',
        label: 'Disk',
        help: 'For the models in its library and the artifacts that its tasks need, together.',
        kind: { type: 'bytes', unit: 'GiB', empty: noLimit },
      },
      {
        path: 'lend.limits.uploadBytesPerS',
        label: 'Upload',
        help: 'What it sends to other machines, all together.',
        kind: { type: 'bytes', unit: 'MiB/s', empty: noLimit },
      },
    ],
  },
  {
    id: 'kinds',
    title: 'What it may be used for',
    fields: [
      {
        path: 'lend.kinds.inference',
        label: 'Models',
        help: 'Hold and compute models, or parts of them.',
        kind: { type: 'switch' },
      },
      {
        path: 'lend.kinds.kernels',
        label: 'Calculations',
        help: 'Calculations that come with Covey.',
        kind: { type: 'switch' },
      },
      {
        path: 'lend.kinds.commands',
        label: 'Programs of members',
        help: 'Programs that members send. Allow it only among people whom you trust with this machine.',
        kind: { type: 'switch' },
      },
      {
        path: 'lend.network',
        label: 'Network for such programs',
        help: 'Programs that ask for it see the network of this machine, and may be reached at these ports.',
        kind: { type: 'network' },
      },
    ],
  },
];

export const apiGroup: FieldGroup = {
  id: 'api',
  title: 'Access for apps',
  fields: [
    {
      path: 'api.requireKey',
      label: 'Want a key on this machine too',
      help: 'Off: every program on this machine may use the models without one.',
      kind: { type: 'switch' },
    },
    {
      path: 'api.allowedHosts',
      label: 'Other names of this machine',
      help: 'Host names, besides its own, under which apps may call it: those of a proxy in front, for example.',
      kind: { type: 'words', placeholder: 'covey.example.org' },
    },
  ],
};

export const lanGroup: FieldGroup = {
  id: 'lan',
  title: 'Access from your network',
  lead: 'For phones and machines that have not joined. Always encrypted, and every caller needs a key.',
  fields: [
    {
      path: 'lan.enabled',
      label: 'Open it to the network',
      help: 'Needs one API key at least.',
      kind: { type: 'switch' },
    },
    { path: 'lan.port', label: 'Port', help: 'On all addresses of this machine.', kind: { type: 'port' } },
    {
      path: 'lan.certificateFile',
      label: 'Certificate of your own',
      help: 'A PEM file with its chain; it is read when the network is opened. Empty: one that this controller makes, which apps have to be told to trust.',
      kind: { type: 'path', placeholder: 'Made by Covey' },
    },
    {
      path: 'lan.keyFile',
      label: 'Its key',
      help: 'A PEM file. It belongs to the certificate: set both or neither.',
      kind: { type: 'path', placeholder: 'Made by Covey' },
    },
  ],
};

export const discoveryGroup: FieldGroup = {
  id: 'discovery',
  title: 'Finding machines',
  fields: [
    {
      path: 'discovery.enabled',
      label: 'Announce this machine and look for others',
      help: 'On the local network, by multicast DNS. Off: machines find this one by its address only.',
      kind: { type: 'switch' },
    },
  ],
};

export const artifactsGroup: FieldGroup = {
  id: 'artifacts',
  title: 'Artifacts on this controller',
  fields: [
    {
      path: 'artifacts.quotaBytes',
      label: 'Most that they may take of its disk',
      help: 'When it is reached, what nothing needs goes, then nothing more comes in. Empty: nine tenths of what is free.',
      kind: { type: 'bytes', unit: 'GiB', empty: 'Nine tenths of the disk' },
    },
  ],
};

export const desktopGroup: FieldGroup = {
  id: 'desktop',
  title: 'The app on this machine',
  lead: 'For the app with a window. What runs without one is started and updated by its system.',
  fields: [
    {
      path: 'app.openAtLogin',
      label: 'Start when somebody logs in',
      help: 'In the background, without a window.',
      kind: { type: 'switch' },
    },
    {
      path: 'app.updates.automatic',
      label: 'Update by itself',
      help: 'New versions are fetched in the background and installed when nothing runs here.',
      kind: { type: 'switch' },
    },
    {
      path: 'app.updates.channel',
      label: 'Versions',
      help: 'Beta versions come earlier and break more often.',
      kind: {
        type: 'choice',
        options: [
          { value: 'stable', label: 'Stable' },
          { value: 'beta', label: 'Beta' },
        ],
      },
    },
  ],
};

export const allGroups: readonly FieldGroup[] = [
  ...lendGroups,
  apiGroup,
  lanGroup,
  discoveryGroup,
  artifactsGroup,
  desktopGroup,
];
