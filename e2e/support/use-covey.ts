import { afterEach } from 'vitest';
import { scriptedIo, type ScriptedIo } from './cli-io.ts';
import { startScriptedApi, type ScriptedApi, type Scripts } from './scripted-api.ts';
import { runCli } from '../../src-main/cli/main.ts';

/** What one command did. `api` has the requests that it sent. */
export interface Outcome {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
  readonly api: ScriptedApi;
}

/** For the tests of one file; what is started ends with the test. */
export function useCovey(): {
  /** Runs one command against scripted answers of the node that seems to run here. */
  readonly covey: (words: string, scripts?: Scripts, io?: ScriptedIo) => Promise<Outcome>;
  readonly serve: (scripts: Scripts) => Promise<ScriptedApi>;
} {
  const started: ScriptedApi[] = [];
  afterEach(async () => {
    for (const api of started.splice(0)) await api.close();
  });
  const serve = async (scripts: Scripts): Promise<ScriptedApi> => {
    const api = await startScriptedApi(scripts);
    started.push(api);
    return api;
  };
  return {
    serve,
    async covey(words, scripts = {}, io = scriptedIo()) {
      const api = await serve(scripts);
      const code = await runCli(['--data', api.dataDirectory, ...words.split(' ')], io);
      return { code, stdout: io.stdout(), stderr: io.stderr().replaceAll(api.url, 'URL'), api };
    },
  };
}
