import { Button } from '@mantine/core';
import type { ApiAnswer } from '#shared/api/calls.ts';
import type { ShellBridge } from '#shared/api/shell.ts';
import { ErrorState, LoadingRows } from '../components/states.tsx';
import { Page } from '../components/page.tsx';
import { desktopGroup, lendGroups, type FieldGroup } from '../features/settings/fields.ts';
import { LendNow } from '../features/settings/lend-now.tsx';
import { SettingsGroup } from '../features/settings/settings-group.tsx';
import '../features/settings/settings.css';
import { plainText } from '../format/plain-text.ts';
import { CoveySection } from './covey-section.tsx';
import { ChangeUse, Question } from './question.tsx';
import { useMachine, type Machine } from './use-machine.ts';

/** What this computer is, to whom it is lent, and how far: for the person at it. */
export function MachinePage({ shell }: { readonly shell: ShellBridge | null }) {
  const machine = useMachine(shell);
  const { self, settings, role, error } = machine;
  const known = self !== undefined && settings !== undefined && (shell === null || role !== undefined);
  const hasDashboard = self?.role === 'controller' || self?.membership != null;
  return (
    <>
      <header className="machine-head">
        <span className="brand">
          <img src="/dashboard/icon.svg" alt="" width={26} height={26} />
          <span>Covey</span>
        </span>
        <span className="spacer" />
        {hasDashboard && role !== null ? <DashboardButton shell={shell} /> : null}
      </header>
      <main>
        {error === null || !known ? null : (
          <div className="stale-banner" role="alert">
            {plainText(error.message)} What is shown here may be old.
          </div>
        )}
        <div className="shell-page">
          <Page
            title="This computer"
            lead={self === undefined ? undefined : `${plainText(self.name)}, Covey ${self.version}`}
          >
            {known ? (
              <Known machine={machine} self={self} settings={settings} shell={shell} />
            ) : error !== null ? (
              <ErrorState title="This computer cannot be shown" error={error} />
            ) : (
              <LoadingRows rows={8} />
            )}
          </Page>
        </div>
      </main>
    </>
  );
}

function DashboardButton({ shell }: { readonly shell: ShellBridge | null }) {
  return shell === null ? (
    <Button component="a" href="/" size="xs" variant="default">
      Open the dashboard
    </Button>
  ) : (
    <Button size="xs" variant="default" onClick={() => void shell.open('dashboard')}>
      Open the dashboard
    </Button>
  );
}

function Known(props: {
  readonly machine: Machine;
  readonly self: ApiAnswer<'self'>;
  readonly settings: ApiAnswer<'settings'>;
  readonly shell: ShellBridge | null;
}) {
  const { machine, self, settings, shell } = props;
  if (shell !== null && machine.role === null) {
    return (
      <div className="machine-question">
        <Question shell={shell} found={machine.found} role={null} />
      </div>
    );
  }
  const group = (shown: FieldGroup) => (
    <SettingsGroup
      key={shown.id}
      group={shown}
      settings={settings.settings}
      gpus={machine.means?.gpus ?? null}
      unavailable={machine.means?.unavailable ?? []}
      head={
        shown.id === 'lend' ? (
          <LendNow lend={self.lend} absent="It is not lent while it is the controller only." />
        ) : null
      }
    />
  );
  // A controller that does not lend has rules for the day when it does: they are in its dashboard.
  const lends = self.role === 'worker' || self.lend !== null;
  const [first = [], second = []] = lends ? [lendGroups.slice(0, 2), lendGroups.slice(2)] : [];
  return (
    <div className="columns settings-columns">
      <div>
        {self.notices.map((notice) => (
          <ErrorState key={notice.code} title="Notice" error={notice} />
        ))}
        <CoveySection self={self} found={machine.found} onLookAgain={machine.lookAgain} />
        {first.map(group)}
      </div>
      <div>
        {second.map(group)}
        {shell === null ? null : (
          <>
            {group(desktopGroup)}
            <ChangeUse shell={shell} found={machine.found} role={machine.role ?? null} />
          </>
        )}
      </div>
    </div>
  );
}
