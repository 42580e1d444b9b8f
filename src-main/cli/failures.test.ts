import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { CoveyError } from '#shared/errors.ts';
import { scriptedIo } from '../../e2e/support/cli-io.ts';
import { seemToRun, startScriptedApi } from '../../e2e/support/scripted-api.ts';
import { exampleNode } from '../../e2e/support/views.ts';
import { newToken } from '../nodejs/access/tokens.ts';
import { useCovey } from '../../e2e/support/use-covey.ts';
import { runCli } from './main.ts';

const { covey, serve } = useCovey();

describe('what goes wrong', () => {
  it('nothing listens: 3, and what to do', async () => {
    const io = scriptedIo();
    const ended = await startScriptedApi({});
    const { dataDirectory, url } = ended;
    await ended.close();
    mkdirSync(dataDirectory);
    seemToRun(dataDirectory, { token: newToken('local'), apiAddress: url, role: 'controller' });
    expect(await runCli(['nodes', '--data', dataDirectory], io)).toBe(3);
    rmSync(dataDirectory, { recursive: true });
    expect(io.stderr()).toBe(
      `error: No covey answers at ${url}: nothing listens there.\n` +
        'Start one with "covey controller" or "covey worker"; --data DIR or COVEY_DATA names the directory\n' +
        'of one that runs already.\n',
    );
  });

  it('nothing runs: nothing is dialled, whoever listens on the usual port', async () => {
    const dataDirectory = mkdtempSync(join(tmpdir(), 'covey-none-'));
    const io = scriptedIo();
    expect(await runCli(['secret', 'set', '--data', dataDirectory], io)).not.toBe(0);
    expect(await runCli(['nodes', '--data', dataDirectory], io)).toBe(3);
    expect(io.stderr()).toContain(`No covey runs on ${dataDirectory}.`);
    rmSync(dataDirectory, { recursive: true });
    const gone = scriptedIo();
    expect(await runCli(['nodes', '--data', dataDirectory], gone)).toBe(1);
    expect(gone.stderr()).toContain(`There is no directory ${dataDirectory}`);
  });

  it('a node without an API is not asked at the usual port', async () => {
    const api = await serve({});
    seemToRun(api.dataDirectory, { token: newToken('local'), apiAddress: null, role: 'worker' });
    const io = scriptedIo();
    expect(await runCli(['nodes', '--data', api.dataDirectory], io)).toBe(3);
    expect(io.stderr()).toContain('serves no API');
  });

  it('no token and no question goes to an address that is not that of the node here', async () => {
    const stranger = await serve({ join: () => ({}) });
    const api = await serve({});
    const io = scriptedIo();
    const words = ['join', 'covey1.secret', '--api', stranger.url, '--data', api.dataDirectory];
    expect(await runCli(words, io)).toBe(1);
    expect(io.stderr()).toContain('nothing was sent there');
    expect(stranger.requests).toEqual([]);
  });

  it('another kind of server: says to check --api', async () => {
    const { code, stderr } = await covey('nodes', {
      nodes: (_request, response) => void response.end('<html>'),
    });
    expect(code).toBe(1);
    expect(stderr).toContain("URL is not Covey's API");
  });

  it('an answer that breaks the contract names the field', async () => {
    const { code, stderr } = await covey('nodes', {
      nodes: (_request, response) => void response.end(JSON.stringify({ nodes: [{ id: 1 }] })),
    });
    expect(code).toBe(1);
    expect(stderr).toContain('nodes.0.id');
  });

  it.each([
    ['stats', 'Did you mean status?'],
    ['nodes lits', 'Did you mean list?'],
    ['nodes --jsn', 'Did you mean --json?'],
    ['load', "missing required argument 'model'"],
    ['load m --split desk', '"desk" is not NODE=SHARE'],
    ['load m --split a=1,a=2', 'names a twice'],
    [
      'run kernel sum x.f64 --shares w1=0',
      "option '--shares <a=60,b=40>' argument 'w1=0' is invalid. The share of w1",
    ],
    [
      'lend set network eth0:80-90',
      'network: the ports must go upwards and be from 1024 to 65535, got 80-90.',
    ],
    ['load m --nodes a,,b', 'names separated by commas'],
    ['load m --ctx 8', 'whole number from 16'],
    ['load m --parallel 1.5', 'whole number from 1 to 64'],
    ['drain a --deadline soon', 'number of seconds'],
    ['import /m.gguf', '--node <node>'],
  ])('wrong usage, "%s": 2, nothing asked', async (words, message) => {
    const { code, stderr, api } = await covey(words);
    expect(code).toBe(2);
    expect(stderr).toContain(message);
    expect(api.requests).toEqual([]);
  });

  it.each(['ftp://h:1', 'h:99999', 'http://u:p@h', 'http://h/x', ':::'])(
    'an --api of %s: 2',
    async (text) => {
      const io = scriptedIo();
      expect(await runCli(['nodes', '--api', text], io)).toBe(2);
      expect(io.stderr()).toContain('--api must be HOST:PORT');
    },
  );

  it('COVEY_API is used, and --api beats it', async () => {
    const api = await serve({ nodes: () => ({ nodes: [] }) });
    const env = { COVEY_API: api.url.replace('http://', ''), COVEY_DATA: api.dataDirectory };
    expect(await runCli(['nodes'], scriptedIo({ env }))).toBe(0);
    expect(await runCli(['nodes', '--api', '1'], scriptedIo({ env }))).toBe(1);
  });

  it('suggests the machine that was meant', async () => {
    const { code, stderr } = await covey('nodes info dekc', {
      node: () => {
        throw new CoveyError('node_not_found', 'There is no machine "dekc". There are: desk.');
      },
      nodes: () => ({ nodes: [exampleNode()] }),
    });
    expect(code).toBe(1);
    expect(stderr).toBe('error: There is no machine "dekc". There are: desk.\nDid you mean "desk"?\n');
  });

  it('with --json, stdout has the error and nothing else', async () => {
    const { code, stdout } = await covey('nodes info x --json', {
      node: () => {
        throw new CoveyError('node_not_found', 'There is no machine "x".');
      },
    });
    expect(code).toBe(1);
    expect(JSON.parse(stdout)).toEqual({
      error: { code: 'node_not_found', message: 'There is no machine "x".' },
    });
  });
});
