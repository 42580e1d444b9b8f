import type { JobResult, JobView } from '#shared/domain/job.ts';
import { renderTable } from './table.ts';
import { bytes, plural, printable, wrap } from './text.ts';

/** What to know of a result: that something is missing in it, or that there was nothing to make one of. */
export function resultNotes({ kind, result, units, partitions }: JobView): string[] {
  const notes: string[] = [];
  if (result === null) return notes;
  if (kind === 'kernel' && result.value === null && units.total === 0) {
    notes.push('The file has no elements, so there is no value.');
  }
  const partial = kind === 'kernel' ? result.value !== null : result.artifacts.length > 0;
  if (result.missing > 0 && partial && !isOneThing(kind)) {
    const all = plural(partitions.total, kind === 'gang' ? 'rank' : 'partition');
    notes.push(
      `Results are missing: ${result.missing} of ${all} ${result.missing === 1 ? 'has' : 'have'} none.`,
    );
  } else if (result.missing > 0 && partial) {
    const what = kind === 'kernel' ? 'value is not of the whole input' : 'file is not whole';
    const are = result.missing === 1 ? 'is' : 'are';
    notes.push(`The ${what}: ${plural(result.missing, 'partition')} of it ${are} missing.`);
  }
  const refused = result.refused ?? 0;
  if (refused > 0) {
    notes.push(
      `${plural(refused, 'record')} of it ${refused === 1 ? 'was' : 'were'} refused: "error" in the result says why.`,
    );
  }
  return notes;
}

/** Made of all partitions together. */
function isOneThing(kind: JobView['kind']): boolean {
  return kind === 'kernel' || kind === 'map' || kind === 'inference';
}

/** The value of a kernel as JSON, or a table of what was made; nothing where a job that has failed made nothing. */
export function resultText(job: JobView, width: number): string {
  const { kind, result } = job;
  if (result === null) return '';
  const parts: string[] = [];
  if (result.value !== null) parts.push(`${valueText(result.value, width)}\n`);
  else if (kind === 'kernel') parts.push('null\n');
  if (result.artifacts.length > 0) {
    const notWhole = result.missing > 0 && isOneThing(kind);
    parts.push(
      renderTable<JobResult['artifacts'][number]>(
        [
          { header: 'RESULT', value: (artifact) => artifact.name, shrinkTo: 16 },
          {
            header: 'KIND',
            value: (artifact) =>
              artifact.kind === 'tree' ? 'folder' : notWhole ? 'file, not whole' : 'file',
          },
          { header: 'SIZE', value: (artifact) => bytes(artifact.bytes), align: 'right' },
          { header: 'ARTIFACT', value: (artifact) => artifact.id.slice(0, 12) },
        ],
        result.artifacts,
        width,
      ),
      `\nGet ${result.artifacts.length === 1 ? 'it' : 'them all'} with "covey jobs get ${job.id}".\n`,
    );
  }
  if (parts.length === 0 && isOneThing(kind) && result.missing > 0) {
    parts.push('No partition has a result, so there is no file.\n');
  } else if (parts.length === 0 && job.status === 'done') {
    parts.push(`It has made no files. What it printed, if anything: "covey jobs logs ${job.id}".\n`);
  }
  return parts.join('');
}

function valueText(value: NonNullable<JobResult['value']>, width: number): string {
  if (typeof value === 'string') return printable(value);
  return wrap(printable(JSON.stringify(value)).replaceAll(',', ', '), width).join('\n');
}
