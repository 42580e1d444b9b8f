import type { Page } from 'playwright-core';
import { beforeAll, describe, expect, test } from 'vitest';
import { predictChat } from '../../src-worker/models/predictable.ts';
import type { RunningController } from '../support/cluster.ts';
import { predictableModel } from '../support/models.ts';
import { loadReady } from '../support/split-cluster.ts';
import { waitFor } from '../support/wait.ts';
import type { Dashboard } from './dashboard.ts';
import { missing, useJobsPages } from './jobs-pages.ts';

const elements = 2_000_000;
/** Sums above what a number of JavaScript holds: shown to the last digit. */
const step = 1_000_003n;
/** So many that there is time to change their shares while they run. */
const manyPartitions = 60_000;

/** Two ranks that hear of each other over the network that their owners allow. */
const rendezvous = `
import os, socket, time
rank, size = int(os.environ['COVEY_RANK']), int(os.environ['COVEY_WORLD_SIZE'])
address = (os.environ['MASTER_ADDR'], int(os.environ['MASTER_PORT']))
if rank == 0:
    peer, _ = socket.create_server(address).accept()
    heard = peer.makefile().readline().strip()
else:
    for attempt in range(100):
        try: peer = socket.create_connection(address, timeout=5); break
        except ConnectionRefusedError: time.sleep(0.1)
    peer.sendall(f'a word from rank {rank}\\n'.encode())
    heard = 'nothing'
print(f'rank {rank} of {size} heard {heard}')
open(os.environ['COVEY_OUTPUT'] + '/heard', 'w').write(heard)
`;

/** Every kind of work as a person asks for it; each test goes on from where the one before it ended. */
describe.skipIf(missing !== null)(`kinds of jobs${missing === null ? '' : ` (${missing})`}`, () => {
  const {
    open,
    lend,
    looksRight,
    job,
    ended,
    section,
    heading,
    kindOf,
    newJob,
    submit,
    downloaded,
    shownId,
  } = useJobsPages();
  let controller: RunningController;
  let dashboard: Dashboard;
  let page: Page;
  beforeAll(() => {
    ({ controller, dashboard } = open());
    ({ page } = dashboard);
  });

  async function upload(field: string, name: string, buffer: Buffer): Promise<void> {
    await page
      .getByLabel(`File to upload: ${field}`)
      .setInputFiles([{ name, mimeType: 'application/octet-stream', buffer }]);
    await waitFor(
      'the upload to be chosen',
      async () => {
        const shown = await page.getByRole('combobox', { name: field }).inputValue();
        return shown.startsWith(name) || null;
      },
      60_000,
    );
  }

  test('where no owner allows programs, form, job and machine say so, and who can change it', async () => {
    const forbidden = page.getByText('No machine runs programs of members now');
    await dashboard.go('#/jobs/new', 'New job');
    await kindOf('Kernel').focus();
    await page.keyboard.press('ArrowDown');
    expect(await kindOf('Command').isChecked()).toBe(true);
    await forbidden.waitFor();
    await page.getByLabel('Name of the job').fill('greeting');
    await page.getByLabel('Program and arguments').fill('echo it is allowed');
    await looksRight('job-form-forbidden');
    // The whole form by keyboard.
    await page.keyboard.press('Enter');
    await heading('greeting');
    await page.getByText(/^It waits, no machine can take it now\. anna: does not allow/).waitFor();
    await forbidden.waitFor();
    await looksRight('job-forbidden');
    const id = shownId();

    const { nodes } = await controller.client.call('nodes');
    await dashboard.go(`#/machines/${nodes.find(({ name }) => name === 'ben')?.id}`, 'ben');
    await section('Jobs there')
      .getByText(/programs of members are not allowed/)
      .waitFor();
    await lend({ kinds: { commands: true } });
    await section('Jobs there')
      .getByText(/programs of members are allowed/)
      .waitFor();
    await dashboard.go(`#/jobs/${id}`, 'greeting');
    await page.getByText('Done', { exact: true }).first().waitFor();
    expect(await forbidden.count()).toBe(0);
    await page.getByRole('button', { name: 'Log of partition 0' }).click();
    await page.getByRole('dialog').getByText('it is allowed').waitFor();
    await page.keyboard.press('Escape');
  });

  test('what runs is on the Overview and on the page of each machine', async () => {
    const { id } = await controller.client.call('submitJob', {
      body: { kind: 'command', name: 'long work', script: 'sleep 1', partitions: 200 } as never,
    });
    await dashboard.go('#/overview', 'Overview');
    await page.getByText(/1 job runs/).waitFor();
    await section('Jobs that run')
      .getByText(/of 200 items/)
      .waitFor();
    await looksRight('overview-jobs');
    await section('Jobs that run').getByRole('link', { name: 'long work' }).click();
    await heading('long work');
    const { nodes } = await controller.client.call('nodes');
    await dashboard.go(`#/machines/${nodes.find(({ name }) => name === 'anna')?.id}`, 'anna');
    const table = page.getByRole('table', { name: 'Work of jobs on anna' });
    await table.getByText('Running', { exact: true }).first().waitFor();
    await looksRight('machine-jobs');
    await table.getByRole('link', { name: 'long work' }).first().click();
    await heading('long work');
    await controller.client.call('cancelJob', { params: { job: id } });
    await page.getByText('Cancelled', { exact: true }).first().waitFor();
    await dashboard.go('#/overview', 'Overview');
    await page.getByText(/^No job runs/).waitFor();
  });

  describe('a kernel', () => {
    const numbers = Buffer.alloc(elements * 8);
    for (let index = 0; index < elements; index++)
      numbers.writeBigInt64LE(BigInt(index + 1) * step, index * 8);
    const sum = String(((BigInt(elements) * BigInt(elements + 1)) / 2n) * step);

    test('sums a file up while its shares are changed', async () => {
      await newJob('Kernel', 'the sum');
      await upload('Input', 'numbers.i64', numbers);
      // From the file's name.
      expect(await page.getByRole('combobox', { name: 'Type of the elements' }).inputValue()).toBe(
        'i64: whole, 8 bytes',
      );
      await page.getByLabel('Partitions', { exact: true }).fill(String(manyPartitions));
      await submit();
      await heading('the sum');
      await section('Distribution').getByText('By hand', { exact: true }).click();
      const slider = page.getByRole('slider', { name: 'Boundary between anna and ben' });
      await slider.focus();
      await page.keyboard.press('Home');
      for (let press = 0; press < 3; press++) await page.keyboard.press('PageUp');
      expect(await slider.getAttribute('aria-valuetext')).toBe('anna 31 %, ben 69 %');
      await page.getByRole('button', { name: 'Use these shares' }).click();
      await page.getByText('Shares are set by hand.').waitFor();
      const view = await job(shownId());
      expect([view.status, view.distribution]).toEqual(['running', 'manual']);
      // Another time, while it runs on.
      await slider.focus();
      await page.keyboard.press('End');
      await page.getByRole('button', { name: 'Use these shares' }).click();
      const done = await ended(shownId(), 180_000);
      expect(done).toMatchObject({ status: 'done', result: { value: sum }, distribution: 'manual' });
      expect(done.shares.every(({ donePercent }) => donePercent > 0)).toBe(true);
      await section('Result').getByText(sum).waitFor();
      await looksRight('job-kernel-done');
    });

    test('is cancelled, gone on with, and has the same result', async () => {
      await page.getByRole('button', { name: /^More actions/ }).click();
      await page.getByRole('menuitem', { name: 'New job like this' }).click();
      await heading('New job');
      await page.getByLabel('Name of the job').fill('the sum again');
      await section('Where').getByText('By speed', { exact: true }).click();
      await submit();
      await heading('the sum again');
      await page.getByText(/^[1-9].* of 2,000,000 elements/).waitFor();
      await page.getByRole('button', { name: 'Cancel', exact: true }).click();
      await page.getByRole('dialog').getByRole('button', { name: 'Cancel the job' }).click();
      await page.getByText('Cancelled', { exact: true }).first().waitFor();
      await looksRight('job-cancelled');
      await page.getByRole('button', { name: 'Go on with it' }).click();
      const done = await ended(shownId(), 180_000);
      expect(done).toMatchObject({ status: 'done', result: { value: sum } });
      await section('Result').getByText(sum).waitFor();
    });
  });

  test('a model answers each record of a file, in their order', async () => {
    const { model } = await loadReady(controller, await predictableModel(), {});
    const questions = Array.from({ length: 24 }, (_, index) => `Question ${index}: once`);
    await newJob('Inference', 'all questions');
    const lines = [...questions.map((question) => ({ question })), { riddle: 'without a question' }]
      .map((record) => `${JSON.stringify(record)}\n`)
      .join('');
    await upload('File with the records', 'questions.jsonl', Buffer.from(lines));
    await page.getByRole('combobox', { name: 'Model' }).click();
    await page.getByRole('option', { name: model }).click();
    await page.getByLabel('Prompt').fill('{question}');
    await page.getByLabel('Parameters of the requests').fill('{"max_tokens": 12, "temperature": 0}');
    await looksRight('job-form-inference');
    await submit();
    await heading('all questions');
    expect(await ended(shownId(), 120_000)).toMatchObject({ status: 'done', units: { done: 25 } });
    await section('Result').getByText('1 record has no answer').waitFor();
    const { bytes } = await downloaded(section('Result').getByRole('button', { name: /^Download/ }));
    const answers = bytes
      .toString()
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as { response: { choices: { message: { content: string } }[] } });
    expect(answers.pop()).toMatchObject({
      record: 24,
      error: { message: expect.stringContaining('question') },
    });
    expect(answers.map(({ response }) => response.choices[0]?.message.content.trim())).toEqual(
      questions.map((content) => predictChat([{ role: 'user', content }], 12).trim()),
    );
    await looksRight('job-inference-done');
  });

  test('ranks of a gang find each other, and each has its log and its output', async () => {
    await lend({ network: { interface: 'lo', ports: { from: 21_400, to: 21_799 } } });
    await newJob('Gang', 'two that talk');
    await section('Program').getByText('A script', { exact: true }).click();
    await page.getByRole('textbox', { name: 'Script' }).fill(rendezvous);
    await page.getByLabel('Interpreter').fill('/usr/bin/python3');
    await page.getByRole('combobox', { name: 'Network' }).click();
    await page.getByRole('option', { name: /^the machine's/ }).click();
    await page.getByLabel('Ranks on one machine at most').fill('1');
    await page.getByRole('button', { name: 'Add an output' }).click();
    await page.getByLabel('Path 1 in {output}').fill('heard');
    await looksRight('job-form-gang');
    await submit();
    await heading('two that talk');
    expect(await ended(shownId())).toMatchObject({ status: 'done', units: { done: 2 } });
    for (const [rank, heard] of ['a word from rank 1', 'nothing'].entries()) {
      await page.getByRole('button', { name: `Log of rank ${rank}` }).click();
      const dialog = page.getByRole('dialog', { name: `Rank ${rank}` });
      await dialog.getByText(`rank ${rank} of 2 heard ${heard}`).waitFor();
      await page.keyboard.press('Escape');
      await dialog.waitFor({ state: 'detached' });
    }
    const { bytes } = await downloaded(page.getByRole('button', { name: 'Download 0/heard' }));
    expect(bytes.toString()).toBe('a word from rank 1');
    await looksRight('job-gang-done');
  });

  test('a partition that kills its process again and again is named with the reason; the rest is done', async () => {
    await newJob('Command', 'one poison');
    await section('Program').getByText('A script', { exact: true }).click();
    await page.getByRole('textbox', { name: 'Script' }).fill('[ $COVEY_INDEX != 4 ] || kill -SEGV $$');
    await page.getByLabel('Runs').fill('8');
    await page.getByRole('button', { name: 'More fields' }).click();
    await page.getByLabel('Attempts at a partition').fill('2');
    await page.getByLabel('Pause before the second').fill('0');
    await submit();
    await heading('one poison');
    expect(await ended(shownId())).toMatchObject({ status: 'failed', partitions: { done: 7, failed: 1 } });
    await page
      .getByRole('alert')
      .getByText(/^Partition 4 failed 2 times, the last time: .*SIGSEGV/)
      .waitFor();
    await page.getByRole('row', { name: /^4 .*Failed.* 2 .*SIGSEGV/ }).waitFor();
    await page.getByText('7 of 8 done, 1 failed').waitFor();
    await looksRight('job-poison');
    await page.getByRole('button', { name: 'Retry 1 failed partition' }).click();
    await page.getByRole('button', { name: 'Retry 1 failed partition' }).waitFor({ state: 'detached' });
    expect(await ended(shownId())).toMatchObject({ status: 'failed', partitions: { done: 7, failed: 1 } });
  });
});
