import { describe, expect, it } from 'vitest';
import { startProcess } from './managed-process.ts';
import { isListening } from './ports.ts';
import {
  descendantsOf,
  killTree,
  listProcesses,
  listeningPorts,
  processInfo,
  stillRuns,
} from './processes.ts';
import { WaitTimeout, waitFor } from './wait.ts';

const node = process.execPath;
const nested =
  `require('child_process').spawn(process.execPath,['-e','setInterval(()=>{},1e3)'],{stdio:'ignore'});` +
  `const s=require('net').createServer().listen(0,'127.0.0.1',()=>console.log(s.address().port))`;

describe.runIf(process.platform === 'linux')('processes', () => {
  it('sees children, ports and the session, and ends the whole tree', async () => {
    const started = startProcess({ label: 'parent', argv: [node, '-e', nested] });
    const port = Number(await waitFor('its port', () => started.stdout().trim(), 5_000));
    const children = await waitFor('its child', () => descendantsOf(started.pid).slice(0, 1), 5_000);
    const child = children[0];
    if (!child) throw new Error('no child');
    expect(child.sessionId).toBe(started.info.sessionId);
    expect(listeningPorts([started.pid])).toEqual([{ pid: started.pid, host: '127.0.0.1', port }]);
    expect(await isListening(port)).toBe(true);

    killTree(started.pid);
    expect((await started.exited).signal).toBe('SIGKILL');
    await waitFor('the child to end', () => !stillRuns(child), 5_000);
    expect(await isListening(port)).toBe(false);
  });

  it('finds orphans by their session', async () => {
    const started = startProcess({ label: 'parent', argv: [node, '-e', nested] });
    await waitFor('its port', () => started.stdout().trim(), 5_000);
    await started.crash();
    const orphan = listProcesses().find((one) => one.sessionId === started.info.sessionId);
    expect(orphan?.parentPid).not.toBe(started.pid);
    if (orphan) process.kill(orphan.pid, 'SIGKILL');
    expect(orphan).toBeDefined();
  });

  it('reads this very process', () => {
    const own = processInfo(process.pid);
    expect(own?.parentPid).toBe(process.ppid);
    expect(own?.rssBytes).toBeGreaterThan(10e6);
    expect(own && stillRuns(own)).toBe(true);
    expect(own && stillRuns({ ...own, startedTicks: own.startedTicks + 1 })).toBe(false);
  });
});

describe('waitFor', () => {
  it('returns what the probe found', async () => {
    let calls = 0;
    expect(await waitFor('three', () => (++calls === 3 ? 'three' : null), 1_000, 1)).toBe('three');
  });

  it('says what it waited for and what it saw', async () => {
    const waiting = waitFor(
      'a miracle',
      () => {
        throw new Error('none yet');
      },
      20,
      5,
    );
    await expect(waiting).rejects.toThrow(WaitTimeout);
    await expect(waiting).rejects.toThrow('waited 0.02 s for a miracle; last: none yet');
  });
});
