import { existsSync, readFileSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { expect, it } from 'vitest';
import { readJobDocument } from './job-document.ts';

/** Gangs for other people's programs, as they are shipped (docs/gangs.md). */
const directory = path.resolve(import.meta.dirname, '..', '..', 'resources', 'templates');
const files = readdirSync(directory).filter((name) => name.endsWith('.yaml'));
const guide = readFileSync(path.resolve(directory, '..', '..', 'docs', 'gangs.md'), 'utf8');

it('has the templates that are promised, and the guide names each', () => {
  expect(files.sort()).toEqual(['mpi.yaml', 'ray-vllm.yaml', 'sglang.yaml', 'torchrun-lora.yaml']);
  for (const name of files) expect(guide).toContain(`resources/templates/${name}`);
});

it.each(files)('%s is a job that could be submitted', (name) => {
  const text = readFileSync(path.join(directory, name), 'utf8');
  const spec = readJobDocument(text, name);
  if (spec.kind !== 'gang') throw new Error(`${name} is of kind ${spec.kind}`);
  expect(spec).toMatchObject({ network: 'lan', perNode: 1 });
  expect(spec.ports).toBeGreaterThan(0);
  // Every port that the script asks for by its number is one of those.
  const numbers = [...(spec.script ?? '').matchAll(/port (\d+)(?:-(\d+))?\)|PORTS" \| cut -d, -f(\d+)/g)];
  const highest = Math.max(1, ...numbers.map(([, one, last, field]) => Number(last ?? one ?? field)));
  expect(spec.ports).toBeGreaterThanOrEqual(highest);
  // Files that are said to be shipped are.
  const shipped = spec.inputs.map(({ artifact }) => artifact).filter((artifact) => artifact.endsWith('.py'));
  for (const artifact of shipped) expect(existsSync(path.join(directory, artifact))).toBe(true);
  expect(text.includes('{index}')).toBe(false);
});
