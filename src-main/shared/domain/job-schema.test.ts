import { expect, test } from 'vitest';
import { jobJsonSchema } from './job-schema.ts';

test('the published schema is the one of the code (vitest -u writes it anew)', async () => {
  const text = `${JSON.stringify(jobJsonSchema(), null, 2)}\n`;
  await expect(text).toMatchFileSnapshot('../../../docs/job.schema.json');
});

test('says what is needed, and only that', () => {
  const schema = JSON.parse(JSON.stringify(jobJsonSchema())) as {
    oneOf: { properties: { kind: { const: string } }; required: string[]; additionalProperties: boolean }[];
  };
  const byKind = Object.fromEntries(schema.oneOf.map((one) => [one.properties.kind.const, one]));
  expect(Object.keys(byKind)).toEqual(['kernel', 'command', 'map', 'inference', 'gang']);
  expect(byKind['kernel']?.required).toEqual(['kind', 'kernel', 'type', 'input']);
  expect(byKind['command']?.required).toEqual(['kind']);
  expect(byKind['gang']?.additionalProperties).toBe(false);
});
