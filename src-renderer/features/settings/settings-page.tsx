import { Alert, Text } from '@mantine/core';
import { IconAlertTriangle } from '@tabler/icons-react';
import type { SettingsView } from '#shared/api/access.ts';
import type { StatusView } from '#shared/api/schema.ts';
import type { SelfView } from '#shared/api/self.ts';
import { confirm } from '../../components/confirm.tsx';
import { CopyField } from '../../components/copy.tsx';
import { ErrorState, LoadingRows } from '../../components/states.tsx';
import { Page, Section } from '../../components/page.tsx';
import { Ago } from '../../components/text.tsx';
import { formatDateTime } from '../../format/format.ts';
import { plainText } from '../../format/plain-text.ts';
import { useRead, useSettings, useStatus } from '../../queries/queries.ts';
import {
  apiGroup,
  artifactsGroup,
  desktopGroup,
  discoveryGroup,
  lanGroup,
  lendGroups,
  type Field,
} from './fields.ts';
import { KeysSection } from './keys-section.tsx';
import { LendNow } from './lend-now.tsx';
import { OwnedElsewhere } from './owned-elsewhere.tsx';
import { SecretSection } from './secret-section.tsx';
import { SettingsGroup } from './settings-group.tsx';
import { SignInSection } from './sign-in-section.tsx';
import './settings.css';

/** All that can be set, with what it does; keys and secrets; what this controller is. */
export function SettingsPage() {
  const settings = useSettings();
  const self = useRead('self');
  const status = useStatus();
  const error = settings.error ?? self.error ?? status.error;
  if (settings.error?.code === 'owner_required') return <OwnedElsewhere status={status.data} />;
  return (
    <Page title="Settings" lead="Of the machine whose address this is: the controller of this covey.">
      {settings.data !== undefined && self.data !== undefined && status.data !== undefined ? (
        <Loaded view={settings.data} self={self.data} status={status.data} />
      ) : error !== null ? (
        <ErrorState
          title="The settings cannot be shown"
          error={error}
          onRetry={() => void Promise.all([settings.refetch(), self.refetch(), status.refetch()])}
        />
      ) : (
        <LoadingRows rows={8} />
      )}
    </Page>
  );
}

function Loaded(props: {
  readonly view: SettingsView;
  readonly self: SelfView;
  readonly status: StatusView;
}) {
  const { view, self, status } = props;
  const { settings } = view;
  const means = useRead('lendMeans').data;
  const common = { settings, gpus: means?.gpus ?? [], unavailable: means?.unavailable ?? [] };
  return (
    <div className="columns settings-columns">
      <div>
        {view.problems.map((problem) => (
          <Alert key={problem} color="yellow" icon={<IconAlertTriangle size={18} aria-hidden />}>
            {plainText(problem)}
          </Alert>
        ))}
        {lendGroups.map((group) => (
          <SettingsGroup
            key={group.id}
            {...common}
            group={group}
            head={group.id === 'lend' ? <LendNow lend={self.lend} absent={lendsNothing} /> : null}
          />
        ))}
      </div>
      <div>
        <SettingsGroup {...common} group={apiGroup} />
        <KeysSection />
        <SignInSection lanAddresses={view.lanAddresses} />
        <SettingsGroup {...common} group={lanGroup} allow={(field, value) => allowLan(view, field, value)}>
          <LanNow view={view} />
        </SettingsGroup>
        <SettingsGroup {...common} group={discoveryGroup} />
        <SettingsGroup {...common} group={artifactsGroup} />
        <SecretSection />
        <SettingsGroup {...common} group={desktopGroup} />
        <About view={view} self={self} status={status} />
      </div>
    </div>
  );
}

const lendsNothing = (
  <>
    This controller does not lend itself: these rules count as soon as it does. The rules of every other
    machine are set there, under “This computer” or by <code>covey lend</code>.
  </>
);

/** Turning LAN access off ends the page of somebody who came over it. */
async function allowLan(view: SettingsView, field: Field, value: unknown): Promise<boolean> {
  const cutsOff =
    field.path === 'lan.enabled' && value === false && view.lanAddresses.includes(location.origin);
  if (!cutsOff) return true;
  return confirm({
    title: 'Close the way that you came?',
    body: 'You look at this page over the network. Without it the page goes away, and only the controller itself can open it again.',
    action: 'Close it',
    danger: true,
  });
}

function LanNow({ view }: { readonly view: SettingsView }) {
  const { lanAddresses, lanCertificate } = view;
  if (lanAddresses.length === 0 || lanCertificate === null) return null;
  return (
    <div className="setting-foot">
      <Text size="sm" fw={500}>
        It answers at
      </Text>
      {lanAddresses.map((address) => (
        <CopyField key={address} value={address} what={`the address ${address}`} />
      ))}
      <dl className="facts">
        <dt>Fingerprint</dt>
        <dd className="mono">{lanCertificate.caFingerprint ?? lanCertificate.fingerprint}</dd>
        <dt>Renewed before</dt>
        <dd>{formatDateTime(lanCertificate.expiresAt)}</dd>
      </dl>
      <Text size="sm" c="dimmed">
        {lanCertificate.caFingerprint === null
          ? 'SHA-256 of your certificate.'
          : "SHA-256 of this controller's own authority, which other machines have to trust. Compare it before they do."}
      </Text>
    </div>
  );
}

function About(props: { readonly view: SettingsView; readonly self: SelfView; readonly status: StatusView }) {
  const { view, self, status } = props;
  const facts: readonly (readonly [string, string])[] = [
    ['Controller', plainText(status.name)],
    ['Version', status.version],
    [
      'Engine',
      status.engineBuildId.known ? status.engineBuildId.value : plainText(status.engineBuildId.reason),
    ],
    ['Machine id', status.nodeId],
    ['For machines', status.clusterAddress ?? 'no address'],
    ['Data', plainText(self.dataDirectory)],
    ['Settings file', plainText(view.file)],
  ];
  return (
    <Section title="About">
      <dl className="facts">
        {facts.map(([name, value]) => (
          <FactLine key={name} name={name} value={value} />
        ))}
        <dt>Started</dt>
        <dd>
          <Ago at={status.startedAt} />
        </dd>
      </dl>
    </Section>
  );
}

function FactLine({ name, value }: { readonly name: string; readonly value: string }) {
  return (
    <>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </>
  );
}
