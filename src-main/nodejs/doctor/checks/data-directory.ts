import { join } from 'node:path';
import { listing, type Finding } from '../check.ts';
import type { DoctorContext } from '../context.ts';
import type { DoctorSystem, FileFacts } from '../system.ts';

/** Who holds these is this machine, or an administrator of the covey. */
const secrets = [
  join('identity', 'key.pem'),
  'cluster-secret',
  'api-access.json',
  'api-session.json',
  'covey.db',
  'covey.db-wal',
];
/** Directories whose files are ours alone, besides those at the top. Models may be shared with others. */
const privateDirectories = ['', 'identity', 'lan', 'journal'];
const maxFiles = 200;

/**
 * Mode 0700 for the directory and 0600 for the files in it, and all of them ours. What lies open in a directory that
 * is closed is a warning; secrets that others can reach are a failure.
 */
export async function checkDataDirectory(context: DoctorContext, system: DoctorSystem): Promise<Finding> {
  const { dataDirectory } = context;
  const directory = await lookAt(dataDirectory, system);
  if (directory === 'denied') {
    return {
      status: 'fail',
      summary: `The data directory ${dataDirectory} may not be read by this user`,
      action: 'Run Covey as the user who owns it, or choose another with --data DIR',
    };
  }
  if (directory === null) {
    return {
      status: context.node === null ? 'skipped' : 'fail',
      summary: `There is no data directory ${dataDirectory}${context.node === null ? ' yet: no node ran here' : ': it was removed while this node runs'}`,
      ...(context.node === null
        ? {}
        : { action: 'Start Covey again; it makes a new one and has to join again' }),
    };
  }
  if (directory.kind !== 'directory') {
    return {
      status: 'fail',
      summary: `${dataDirectory} is not a directory`,
      action: 'Move that file away, or choose another data directory with --data DIR',
    };
  }
  if (system.platform === 'win32') {
    return {
      status: 'skipped',
      summary: `The data directory is ${dataDirectory}; who may read it is up to Windows' own permissions of your profile`,
    };
  }
  const files = await privateFiles(dataDirectory, system);
  const foreign = [directory, ...files].filter(
    (file) => system.uid !== null && system.uid !== 0 && file.uid !== system.uid,
  );
  if (foreign[0]) {
    return {
      status: 'fail',
      summary: `${foreign[0].path} belongs to another user (number ${foreign[0].uid}), so Covey may fail to write it`,
      action: `Give it back with "sudo chown -R $USER '${dataDirectory}'"`,
    };
  }
  const isClosed = (directory.mode & 0o077) === 0;
  const loose = files.filter((file) => (file.mode & 0o077) !== 0);
  if (isClosed && loose.length === 0) {
    return { status: 'ok', summary: `Only this user can read ${dataDirectory} (mode 700, files 600)` };
  }
  const action = `Close it with "chmod -R go= '${dataDirectory}'"`;
  const exposed = loose.filter((file) => secrets.some((name) => file.path === join(dataDirectory, name)));
  if (!isClosed && exposed.length > 0) {
    return {
      status: 'fail',
      summary: `Other users of this machine can read ${listing(exposed.map(modeText))}: the key or a token may be copied`,
      action,
    };
  }
  const what = isClosed ? loose : [directory, ...loose];
  return {
    status: 'warn',
    summary: `Modes are wider than they should be: ${listing(what.map(modeText))}`,
    action,
  };
}

function modeText({ path, mode }: FileFacts): string {
  return `${path} (mode ${mode.toString(8)})`;
}

async function privateFiles(dataDirectory: string, system: DoctorSystem): Promise<FileFacts[]> {
  const found: FileFacts[] = [];
  for (const part of privateDirectories) {
    const directory = join(dataDirectory, part);
    for (const name of await system.list(directory)) {
      if (found.length >= maxFiles) return found;
      const facts = await lookAt(join(directory, name), system);
      if (facts !== null && facts !== 'denied' && facts.kind === 'file') found.push(facts);
    }
  }
  return found;
}

async function lookAt(path: string, system: DoctorSystem): Promise<FileFacts | 'denied' | null> {
  try {
    return await system.look(path);
  } catch {
    return 'denied';
  }
}
