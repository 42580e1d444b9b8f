import { z } from 'zod';
import type { SettingsView } from '../../../src-main/shared/api/access.ts';
import { lendRulesSchema as lendRules, lendStateSchema } from '../../../src-main/shared/domain/lend.ts';
import { apiEventSchema } from '../../../src-main/shared/api/schema.ts';
import { defaultSettings } from '../../../src-main/shared/settings.ts';
import { at, nodeIdOf } from '../views.ts';
import { type GoldenCase, lent, missing, self } from './golden-case.ts';

const settings: SettingsView = {
  settings: defaultSettings,
  file: '/somewhere/config.json',
  lanAddresses: [],
  lanCertificate: null,
  problems: [],
};

const key = {
  id: 'k-1a2b3c4d',
  name: 'editor',
  scope: 'inference' as const,
  createdAt: at - 86_400_000,
  lastUsedAt: null,
};

/** Commands of who may do what, of settings, and what happened. */
export const accessCases: Readonly<Record<string, GoldenCase>> = {
  'lend status': {
    happy: { words: 'lend status', scripts: { self: () => self, settings: () => settings } },
    empty: { words: 'lend', scripts: { self: () => ({ ...self, lend: null }), settings: () => settings } },
    wrong: 'lend sometimes',
    json: z.strictObject({ state: lendStateSchema.nullable(), rules: lendRules }),
  },
  'lend on': {
    happy: { words: 'lend on', scripts: { setSettings: () => settings, self: () => self } },
    wrong: 'lend on please',
    json: z.strictObject({ state: lendStateSchema.nullable() }),
  },
  'lend off': {
    happy: {
      words: 'lend off',
      scripts: {
        setSettings: () => settings,
        self: () => ({
          ...self,
          lend: {
            ...lent,
            lending: false,
            heldBackBy: [{ rule: 'switch' as const, message: 'Lending is switched off.' }],
          },
        }),
      },
    },
    wrong: 'lend off please',
    json: z.strictObject({ state: lendStateSchema.nullable() }),
  },
  'lend set': {
    happy: { words: 'lend set ram 8GB', scripts: { setSettings: () => settings } },
    wrong: 'lend set rma 8GB',
    json: z.strictObject({ rules: lendRules }),
  },
  events: {
    happy: {
      words: 'events',
      scripts: {
        events: (_request, response) => {
          response.writeHead(200, { 'content-type': 'text/event-stream' });
          const event = { id: 1, at, kind: 'node-joined', level: 'info', message: 'desk has joined.' };
          response.end(`data: ${JSON.stringify(event)}\n\n`);
        },
      },
    },
    empty: {
      words: 'events',
      scripts: {
        events: (_request, response) =>
          void response.writeHead(200, { 'content-type': 'text/event-stream' }).end(),
      },
    },
    wrong: 'events --folow',
    json: apiEventSchema,
    jsonLines: true,
  },
  logs: {
    happy: {
      words: 'logs --lines 1',
      scripts: {
        logs: () => ({
          lines: [
            {
              at,
              nodeId: nodeIdOf('a'),
              nodeName: 'desk',
              level: 'info',
              source: 'worker',
              message: 'connected',
            },
          ],
        }),
      },
    },
    empty: { words: 'logs', scripts: { logs: () => ({ lines: [] }) } },
    wrong: 'logs --lines 0',
    json: 'logs',
  },
  open: {
    happy: {
      words: 'open',
      scripts: {
        loginCode: () => ({
          code: 'ABCD-EFGH',
          url: 'http://127.0.0.1:7878/#code=ABCD-EFGH',
          expiresAt: at + 60_000,
        }),
      },
    },
    wrong: 'open now',
    json: 'loginCode',
  },
  login: {
    happy: {
      words: 'login',
      scripts: {
        redeem: () => ({ token: 'covey_session_x', role: 'admin', expiresAt: at + 43_200_000 }),
      },
      answers: ['ABCD-EFGH'],
    },
    empty: {
      words: 'login',
      scripts: { redeem: missing('login_code_invalid', 'This code is wrong, used, or too old.') },
      answers: ['ABCD-EFGH'],
      code: 1,
    },
    wrong: 'login ABCD-EFGH',
    json: z.strictObject({ role: z.literal('admin'), expiresAt: z.number() }),
  },
  logout: {
    happy: { words: 'logout', scripts: { logout: () => ({}) } },
    wrong: 'logout now',
    json: z.strictObject({ loggedOut: z.boolean() }),
    offline: true,
  },
  'keys list': {
    happy: { words: 'keys list', scripts: { keys: () => ({ keys: [key] }) } },
    empty: { words: 'keys', scripts: { keys: () => ({ keys: [] }) } },
    wrong: 'keys lits',
    json: 'keys',
  },
  'keys create': {
    happy: { words: 'keys create editor', scripts: { createKey: () => ({ ...key, key: 'covey_key_x' }) } },
    wrong: 'keys create',
    json: 'createKey',
  },
  'keys revoke': {
    happy: {
      words: 'keys revoke editor',
      scripts: { keys: () => ({ keys: [key] }), revokeKey: () => ({}) },
    },
    empty: {
      words: 'keys revoke editor',
      scripts: {
        keys: () => ({ keys: [] }),
        revokeKey: missing('key_not_found', 'There is no key "editor".'),
      },
      code: 1,
    },
    wrong: 'keys revoke',
    json: 'revokeKey',
  },
  'config get': {
    happy: { words: 'config get', scripts: { settings: () => settings } },
    wrong: 'config get lan port',
    json: 'settings',
  },
  'config set': {
    happy: { words: 'config set lan.port 7881', scripts: { setSettings: () => settings } },
    wrong: 'config set lan.port',
    json: 'setSettings',
  },
  'config unset': {
    happy: { words: 'config unset lan.port', scripts: { setSettings: () => settings } },
    wrong: 'config unset',
    json: 'setSettings',
  },
};
