import { exampleDeployment, exampleId, exampleModel, exampleTransfer } from '../views.ts';
import { type GoldenCase, missing, noNode } from './golden-case.ts';

const noDeployment = missing('deployment_not_found', 'There is no deployment "tiny": nothing is loaded.');

/** Commands of models and what is loaded. */
export const modelCases: Readonly<Record<string, GoldenCase>> = {
  load: {
    happy: {
      words: 'load /models/tiny.gguf --no-wait',
      scripts: { load: () => exampleDeployment({ status: 'loading', readyAt: null }) },
    },
    empty: {
      words: 'load tiny --no-wait',
      scripts: { load: missing('no_nodes', 'No machine is ready to take a model.') },
      code: 1,
    },
    wrong: 'load tiny --ctx 8',
    json: 'load',
  },
  unload: {
    happy: {
      words: `unload ${exampleId}`,
      scripts: { unload: () => exampleDeployment({ status: 'unloading', stages: [] }) },
    },
    empty: {
      words: 'unload tiny',
      scripts: { unload: noDeployment, deployments: () => ({ deployments: [] }) },
      code: 1,
    },
    wrong: 'unload',
    json: 'unload',
  },
  retry: {
    happy: {
      words: `retry ${exampleId}`,
      scripts: { retry: () => exampleDeployment({ status: 'waiting' }) },
    },
    empty: {
      words: 'retry tiny',
      scripts: { retry: noDeployment, deployments: () => ({ deployments: [] }) },
      code: 1,
    },
    wrong: 'retry',
    json: 'retry',
  },
  'deployments list': {
    happy: {
      words: 'deployments list',
      scripts: { deployments: () => ({ deployments: [exampleDeployment()] }) },
    },
    empty: { words: 'deployments', scripts: { deployments: () => ({ deployments: [] }) } },
    wrong: 'deployments ls',
    json: 'deployments',
  },
  'deployments info': {
    happy: { words: `deployments info ${exampleId}`, scripts: { deployment: () => exampleDeployment() } },
    empty: {
      words: 'deployments info tiny',
      scripts: { deployment: noDeployment, deployments: () => ({ deployments: [] }) },
      code: 1,
    },
    wrong: 'deployments info',
    json: 'deployment',
  },
  'models list': {
    happy: { words: 'models list', scripts: { models: () => ({ models: [exampleModel] }) } },
    empty: { words: 'models', scripts: { models: () => ({ models: [] }) } },
    wrong: 'models lsit',
    json: 'models',
  },
  import: {
    happy: {
      words: 'import /m.gguf --node desk',
      scripts: {
        importModel: () =>
          exampleTransfer({ kind: 'import', status: 'done', model: 'm', doneBytes: 1_000_000 }),
      },
    },
    empty: {
      words: 'import /m.gguf --node desk',
      scripts: { importModel: noNode, nodes: () => ({ nodes: [] }) },
      code: 1,
    },
    wrong: 'import /m.gguf',
    json: 'importModel',
  },
  pull: {
    happy: {
      words: 'pull hf:owner/repo/file.gguf',
      scripts: {
        pullModel: () => exampleTransfer({ status: 'done', model: 'file', doneBytes: 1_000_000 }),
      },
    },
    empty: {
      words: 'pull hf:owner/repo/file.gguf',
      scripts: { pullModel: missing('no_nodes', 'No machine is ready to download to.') },
      code: 1,
    },
    wrong: 'pull',
    json: 'pullModel',
  },
};
