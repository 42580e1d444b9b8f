import { readFileSync } from 'node:fs';
import path from 'node:path';

const directory = path.join(import.meta.dirname, 'corpus');

/**
 * A file of the corpus, one input per line. `.jsonl`: each line is the text of one JSON value. `.txt`: each line is
 * a JSON string, whose value is the input. `.hex`: bytes. Lines that begin with `#` say what follows.
 */
export function readCorpus(file: string): string[] {
  const lines = readFileSync(path.join(directory, file), 'utf8')
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'));
  return file.endsWith('.txt') ? lines.map((line) => JSON.parse(line) as string) : lines;
}

export function readHexCorpus(file: string): Buffer[] {
  return readCorpus(file).map((line) => Buffer.from(line, 'hex'));
}
