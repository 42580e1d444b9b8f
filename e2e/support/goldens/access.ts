import type { SettingsView } from '../../../src-main/shared/api/access.ts';
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
    json: null,
  },
  'lend on': {
    happy: { words: 'lend on', scripts: { setSettings: () => settings, self: () => self } },
    wrong: 'lend on please',
    json: null,
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
    json: null,
  },
  'lend set': {
    happy: { words: 'lend set ram 8GB', scripts: { setSettings: () => settings } },
    wrong: 'lend set rma 8GB',
    json: null,
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
    json: null,
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
    json: null,
  },
  logout: {
    happy: { words: 'logout', scripts: { logout: () => ({}) } },
    wrong: 'logout now',
    json: null,
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
    json: null,
  },
  'config get': {
    happy: { words: 'config get', scripts: { settings: () => settings } },
    wrong: 'config get lan port',
    json: null,
  },
  'config set': {
    happy: { words: 'config set lan.port 7881', scripts: { setSettings: () => settings } },
    wrong: 'config set lan.port',
    json: null,
  },
  'config unset': {
    happy: { words: 'config unset lan.port', scripts: { setSettings: () => settings } },
    wrong: 'config unset',
    json: null,
  },
  version: { happy: { words: 'version', scripts: {} }, wrong: 'version 1', json: null, offline: true },
  completion: {
    happy: { words: 'completion --help', scripts: {} },
    wrong: 'completion tcsh',
    json: null,
    offline: true,
  },
  man: { happy: { words: 'man --help', scripts: {} }, wrong: 'man covey', json: null, offline: true },
  backup: {
    happy: { words: 'backup --help', scripts: {} },
    wrong: 'backup',
    json: null,
    offline: true,
  },
  restore: {
    happy: { words: 'restore --help', scripts: {} },
    wrong: 'restore',
    json: null,
    offline: true,
  },
};
