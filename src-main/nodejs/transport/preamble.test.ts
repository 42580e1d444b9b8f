import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { errorCatalogue } from '#shared/errors.ts';
import { preambleReplySchema, preambleSchema } from '#shared/protocol/join.ts';
import { parsePreamble, parsePreambleReply } from './preamble.ts';

const secret = fc
  .uint8Array({ minLength: 32, maxLength: 32 })
  .map((bytes) => Buffer.from(bytes).toString('hex'));
const secretOrNot = fc.oneof(
  secret,
  secret.map((text) => text.toUpperCase()),
  fc.string(),
  fc.integer(),
);
const almost = fc.record(
  {
    protocol: fc.oneof(fc.integer(), fc.double(), fc.string(), fc.constant(null)),
    target: fc.oneof(
      fc.constantFrom('engine', 'pulse', 'gateway', 'reverse', 'relay', 'probe', 'Engine', ''),
      fc.string(),
    ),
    grant: secretOrNot,
    token: secretOrNot,
    peer: secretOrNot,
  },
  { requiredKeys: [] },
);

describe('parsePreamble', () => {
  it('takes exactly what the schema takes', () => {
    fc.assert(
      fc.property(fc.oneof(almost, fc.jsonValue()), (value) => {
        // Through JSON first: NaN and undefined do not travel.
        const json = JSON.stringify(value);
        const wanted = preambleSchema.safeParse(JSON.parse(json));
        expect(parsePreamble(json)).toEqual(wanted.success ? wanted.data : null);
      }),
      { numRuns: 3_000 },
    );
  });

  it('answers null for anything that is not JSON', () => {
    fc.assert(fc.property(fc.string(), (text) => void parsePreamble(text)));
    expect(parsePreamble('{')).toBeNull();
  });
});

describe('parsePreambleReply', () => {
  it('takes exactly what the schema takes of code and sentence', () => {
    const reply = fc.record(
      {
        ok: fc.oneof(fc.boolean(), fc.constant('true')),
        error: fc.oneof(
          fc.record(
            {
              code: fc.oneof(fc.constantFrom(...Object.keys(errorCatalogue)), fc.string({ maxLength: 64 })),
              message: fc.oneof(fc.string(), fc.integer()),
            },
            { requiredKeys: [] },
          ),
          fc.constant(null),
        ),
      },
      { requiredKeys: [] },
    );
    fc.assert(
      fc.property(fc.oneof(reply, fc.jsonValue()), (value) => {
        const json = JSON.stringify(value);
        const wanted = preambleReplySchema.safeParse(JSON.parse(json));
        expect(parsePreambleReply(json)).toEqual(wanted.success ? wanted.data : null);
      }),
      { numRuns: 3_000 },
    );
  });
});
