/** What an event is about, for choosing in a list. A subject stands for all its kinds. */
export interface EventSubject {
  readonly id: string;
  readonly label: string;
  /** 32 at most: as many as the controller takes. */
  readonly kinds: readonly { readonly kind: string; readonly label: string }[];
}

const of = (id: string, label: string, kinds: Readonly<Record<string, string>>): EventSubject => ({
  id,
  label,
  kinds: Object.entries(kinds).map(([kind, name]) => ({ kind, label: name })),
});

export const eventSubjects: readonly EventSubject[] = [
  of('machines', 'Machines', {
    'session-opened': 'Connected',
    'session-closed': 'Disconnected',
    'node-lost': 'Lost',
    'node-joined': 'Joined',
    'node-removed': 'Removed',
    'node-renamed': 'Renamed',
    'node-paused': 'Paused',
    'node-resumed': 'Resumed',
    'drain-started': 'Drain began',
    'drain-completed': 'Drained',
    'node-gave-way': 'Gives way to its owner',
    'node-cleared': 'Has given way',
    'node-lent-again': 'Lent again',
    'node-programs-allowed': 'Programs allowed',
    'node-programs-forbidden': 'Programs forbidden',
    'network-path-changed': 'Way between machines changed',
    'network-address-changed': 'Address changed',
  }),
  of('models', 'Models', {
    'deployment-created': 'Load asked for',
    'replica-placed': 'Placed',
    'leader-assigned': 'Stages are ready',
    'replica-ready': 'Ready',
    'replica-failed': 'Failed or interrupted',
    'deployment-waited': 'Waits',
    'retry-requested': 'Tried again',
    'replica-draining': 'Finishes its requests',
    'drain-cancelled': 'Takes requests again',
    'replica-released': 'Taken off its machines',
    'unload-requested': 'Unload asked for',
    'deployment-removed': 'Unloaded',
    'transfer-failed': 'Import or download failed',
    'audit-model-removed': 'File removed',
  }),
  of('jobs', 'Jobs', {
    'job-submitted': 'Submitted',
    'job-started': 'Began',
    'job-done': 'Done',
    'job-failed': 'Failed for good',
    'job-cancel-requested': 'Cancelling asked for',
    'job-cancelled': 'Cancelled',
    'job-retry-requested': 'Another try asked for',
    'job-removed': 'Removed with its results',
    'partition-failed': 'Partition failed for good',
    'gang-stopped': 'Ranks ended',
    'distribution-set': 'Shares set',
    'share-released': 'Share given to others',
  }),
  of('joining', 'Joining', {
    'audit-join-requested': 'Asked to join',
    'audit-join-approved': 'Let in',
    'audit-join-denied': 'Denied',
    'audit-invite-created': 'Join string made',
    'audit-cluster-secret-changed': 'Cluster secret changed',
    'security-join-refused': 'Join refused',
  }),
  of('access', 'Access and settings', {
    'audit-login': 'Log-in',
    'audit-key-created': 'Key made',
    'audit-key-first-used': 'Key used first',
    'audit-key-revoked': 'Key revoked',
    'audit-setting-changed': 'Setting changed',
    'certificate-renewed': 'Certificate renewed',
    'certificate-renewal-failed': 'Certificate not renewed',
    'security-token-refused': 'Wrong token or code',
    'security-refused': 'Refused',
    'security-identity-duplicate': 'One identity used twice',
    'security-identity-moved': 'Identity moved',
  }),
];

/** `subject:models`, or a kind. Those that are not in the list are kinds too. */
export function kindsOf(choice: string | null): readonly string[] {
  if (choice === null) return [];
  const subject = eventSubjects.find(({ id }) => `subject:${id}` === choice);
  return subject === undefined ? [choice] : subject.kinds.map(({ kind }) => kind);
}

/** The reverse of it; null: all kinds. */
export function choiceOf(kinds: readonly string[]): string | null {
  if (kinds.length === 0) return null;
  const all = kinds.join();
  const subject = eventSubjects.find((one) => one.kinds.map(({ kind }) => kind).join() === all);
  return subject === undefined ? (kinds[0] ?? null) : `subject:${subject.id}`;
}
