import { Alert, Select, Tabs, Text } from '@mantine/core';
import { IconKey } from '@tabler/icons-react';
import { useState } from 'react';
import { hrefTo } from '../../app/router.ts';
import { CodeBlock, CopyField } from '../../components/copy.tsx';
import { ErrorState, LoadingRows } from '../../components/states.tsx';
import { Page, Section } from '../../components/page.tsx';
import { plainText } from '../../format/plain-text.ts';
import { useDeployments, useSettings } from '../../queries/queries.ts';
import './api.css';
import { snippetsFor } from './snippets.ts';

/** The address for apps, and how to tell it to each of them. */
export function ApiPage() {
  const deployments = useDeployments();
  const settings = useSettings();
  // At the address of a worker these settings are nobody's business but its owner's.
  const hidden = settings.error?.code === 'owner_required';
  const error = deployments.error ?? settings.error;
  return (
    <Page title="API" lead="Every app that speaks OpenAI's API can use the models of this covey.">
      {deployments.data !== undefined && (settings.data !== undefined || hidden) ? (
        <Loaded
          models={deployments.data.deployments.map(({ model, status }) => ({
            model,
            ready: status === 'ready',
          }))}
          requireKey={settings.data?.settings.api.requireKey ?? false}
          lanAddresses={settings.data?.lanAddresses ?? []}
        />
      ) : error !== null ? (
        <ErrorState
          title="The address cannot be shown"
          error={error}
          onRetry={() => void Promise.all([deployments.refetch(), settings.refetch()])}
        />
      ) : (
        <LoadingRows rows={8} />
      )}
    </Page>
  );
}

interface LoadedProps {
  readonly models: readonly { readonly model: string; readonly ready: boolean }[];
  readonly requireKey: boolean;
  readonly lanAddresses: readonly string[];
}

function Loaded({ models, requireKey, lanAddresses }: LoadedProps) {
  const here = `${location.origin}/v1`;
  const others = lanAddresses.map((address) => `${address}/v1`).filter((address) => address !== here);
  const [baseUrl, setBaseUrl] = useState(here);
  const [chosen, setChosen] = useState<string | null>(null);
  const names = [
    ...new Set([...models].sort((a, b) => Number(b.ready) - Number(a.ready)).map(({ model }) => model)),
  ];
  const model = chosen !== null && names.includes(chosen) ? chosen : (names[0] ?? 'MODEL');
  const needsKey = requireKey || baseUrl.startsWith('https:');
  const snippets = snippetsFor({ baseUrl, model, needsKey });
  return (
    <div className="grid">
      <Section
        title="For your apps"
        className="half"
        lead="Where an app asks for a base URL or an endpoint, enter this."
      >
        <div className="stack">
          <CopyField value={here} what="the base URL" />
          <Text size="sm" c="dimmed">
            On a machine that has joined, its own Covey leads here too: at{' '}
            <code>http://localhost:7878/v1</code>, unless it was started with another port or with none.
          </Text>
          {others.length === 0 ? (
            <Text size="sm" c="dimmed">
              Phones and machines that have not joined cannot reach it.{' '}
              <a href={hrefTo('settings')}>Settings</a> can open it to your network.
            </Text>
          ) : (
            <>
              <Text size="sm">From elsewhere on your network, with a key:</Text>
              {others.slice(0, 4).map((address) => (
                <CopyField key={address} value={address} what={`the address ${address}`} />
              ))}
            </>
          )}
        </div>
      </Section>
      <Section
        title="Model and key"
        className="half"
        lead="Where it asks for a model, enter the name of one that is loaded."
      >
        <div className="stack">
          {names.length === 0 ? (
            <Text size="sm">
              No model is loaded yet, so there is no name to use: <a href={hrefTo('models')}>load one</a>{' '}
              first.
            </Text>
          ) : (
            <CopyField value={plainText(model)} what="the name of the model" />
          )}
          {needsKey ? (
            <Alert color="yellow" icon={<IconKey size={18} aria-hidden />} title="A key is needed">
              Create one in <a href={hrefTo('settings')}>settings</a>; it goes where an app asks for an API
              key.
            </Alert>
          ) : (
            <Text size="sm" c="dimmed">
              On this machine no key is needed. Where an app insists on one, any word will do.
            </Text>
          )}
        </div>
      </Section>
      <Section
        title="Set up an app"
        actions={
          <div className="choices">
            {others.length === 0 ? null : (
              <Select
                label="Address"
                size="xs"
                data={[here, ...others]}
                value={baseUrl}
                onChange={(value) => setBaseUrl(value ?? here)}
                allowDeselect={false}
              />
            )}
            {names.length < 2 ? null : (
              <Select
                label="Model"
                size="xs"
                data={names}
                value={model}
                onChange={setChosen}
                allowDeselect={false}
              />
            )}
          </div>
        }
      >
        <Tabs defaultValue="curl" keepMounted={false}>
          <Tabs.List className="tabs-line">
            {snippets.map(({ id, title }) => (
              <Tabs.Tab key={id} value={id}>
                {title}
              </Tabs.Tab>
            ))}
          </Tabs.List>
          {snippets.map(({ id, title, how, code }) => (
            <Tabs.Panel key={id} value={id} pt="sm">
              <Text size="sm" c="dimmed" mb="xs">
                {how}
              </Text>
              <CodeBlock value={code} what={`snippet for ${title}`} />
            </Tabs.Panel>
          ))}
        </Tabs>
      </Section>
      <Section title="What it answers" flush>
        <ul className="paths">
          {paths.map(([path, what]) => (
            <li key={path}>
              <code>{path}</code>
              <span>{what}</span>
            </li>
          ))}
        </ul>
      </Section>
    </div>
  );
}

const paths = [
  ['GET /v1/models', 'The models that are loaded.'],
  ['POST /v1/chat/completions', 'Conversations, also as a stream ("stream": true).'],
  ['POST /v1/completions', 'Text that goes on, also as a stream.'],
  ['POST /v1/embeddings', 'Vectors of texts, by models made for that.'],
] as const;
