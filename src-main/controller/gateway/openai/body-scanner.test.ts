import { describe, expect, it } from 'vitest';
import fc from 'fast-check';
import { CoveyError } from '#shared/errors.ts';
import { BodyScanner, type RequestFacts } from './body-scanner.ts';

function scan(text: string | Buffer, pieceBytes = Infinity): RequestFacts {
  const bytes = typeof text === 'string' ? Buffer.from(text) : text;
  const scanner = new BodyScanner();
  for (let at = 0; at < bytes.length; at += pieceBytes) scanner.push(bytes.subarray(at, at + pieceBytes));
  return scanner.finish();
}

/** The code of the refusal and the field it names. */
function refusal(text: string | Buffer, pieceBytes?: number): string {
  try {
    return JSON.stringify(scan(text, pieceBytes));
  } catch (error) {
    if (!(error instanceof CoveyError)) throw error;
    return [error.code, error.details.field].filter(Boolean).join(' ');
  }
}

describe('BodyScanner', () => {
  it.each([
    ['{"model":"m"}', { model: 'm', stream: false }],
    ['{"stream":true,"messages":[{"model":"x","stream":false}],"model":"m"}', { model: 'm', stream: true }],
    ['{"model":"m","stream":null}', { model: 'm', stream: false }],
    ['{"model":"a","model":"b"}', { model: 'b', stream: false }],
    [' {\n"mod\\u0065l" :\t"a\\"\\\\b\\u00e4 \\ud83d\\ude00" } ', { model: 'a"\\bä 😀', stream: false }],
    ['{"model":"Größe/7B","n":-1.5e+3,"o":{},"p":[],"q":[[],{"":0}]}', { model: 'Größe/7B', stream: false }],
    [`{"${'k'.repeat(500)}":1,"model":"m"}`, { model: 'm', stream: false }],
  ])('reads %s', (text, facts) => {
    expect(scan(text)).toEqual(facts);
    expect(scan(text, 1)).toEqual(facts);
  });

  it.each([
    ['', 'invalid_json'],
    ['{', 'invalid_json'],
    ['{"model":"m"', 'invalid_json'],
    ['{"model":"m"}x', 'invalid_json'],
    ['{"model":"m",}', 'invalid_json'],
    ["{'model':'m'}", 'invalid_json'],
    ['{"model":"m" "a":1}', 'invalid_json'],
    ['{"model":"m","a":[1,]}', 'invalid_json'],
    ['{"model":"m","a":[1}}', 'invalid_json'],
    ['{"model":"m","a":01}', 'invalid_json'],
    ['{"model":"m","a":1.}', 'invalid_json'],
    ['{"model":"m","a":nul}', 'invalid_json'],
    ['{"model":"m","a":NaN}', 'invalid_json'],
    ['{"model":"m","a":"\n"}', 'invalid_json'],
    ['{"model":"m","a":"\\x41"}', 'invalid_json'],
    ['{"model":"m","a":"\\u12g4"}', 'invalid_json'],
    [Buffer.from([...Buffer.from('{"model":"'), 0xff, ...Buffer.from('"}')]), 'invalid_json'],
    [Buffer.from([...Buffer.from('{"model":"m","a":"'), 0xe2, 0x82, ...Buffer.from('"}')]), 'invalid_json'],
    [`{"model":"m","a":${'['.repeat(100_000)}`, 'invalid_json'],
    [`{"model":"m","a":${'1'.repeat(100_000)}}`, 'invalid_json'],
    ['[{"model":"m"}]', 'invalid_request'],
    ['"model"', 'invalid_request'],
    ['12', 'invalid_request'],
    ['{}', 'invalid_request model'],
    ['{"Model":"m"}', 'invalid_request model'],
    ['{"model":null}', 'invalid_request model'],
    ['{"model":["m"]}', 'invalid_request model'],
    ['{"model":{"model":"m"}}', 'invalid_request model'],
    ['{"model":7}', 'invalid_request model'],
    ['{"model":""}', 'invalid_request model'],
    ['{"model":"m","model":1}', 'invalid_request model'],
    [`{"model":"${'m'.repeat(5_000)}"}`, 'invalid_request model'],
    ['{"model":"m","stream":"true"}', 'invalid_request stream'],
    ['{"model":"m","stream":1}', 'invalid_request stream'],
    ['{"model":"m","stream":{}}', 'invalid_request stream'],
  ])('refuses %.60s', (text, expected) => {
    expect(refusal(text)).toBe(expected);
    expect(refusal(text, 1)).toBe(expected);
  });

  it('says where a body is no JSON', () => {
    expect(() => scan('{"model":"m",}')).toThrow(/double quotes is missing \(byte 13\)/);
  });

  it('takes every JSON object that has a model, cut anywhere', () => {
    fc.assert(
      fc.property(
        fc.dictionary(fc.string(), fc.jsonValue()),
        fc.string({ minLength: 1, unit: 'binary' }),
        fc.boolean(),
        fc.integer({ min: 1, max: 50 }),
        fc.constantFrom(undefined, 1),
        (rest, model, stream, pieceBytes, indent) => {
          const text = JSON.stringify({ ...rest, model, stream }, null, indent);
          expect(scan(text, pieceBytes)).toEqual({ model, stream });
        },
      ),
      { numRuns: 500 },
    );
  });

  it('agrees with JSON.parse about damaged bodies', () => {
    fc.assert(
      fc.property(
        fc.jsonValue({ maxDepth: 3 }),
        fc.nat(),
        fc.constantFrom(
          '',
          '"',
          '\\',
          '{',
          '}',
          '[',
          ']',
          ',',
          ':',
          '0',
          '-',
          'e',
          't',
          ' ',
          '\n',
          '\u0001',
          'ä',
        ),
        fc.nat(2),
        (value, place, insert, remove) => {
          const whole = JSON.stringify({ model: 'm', value });
          const at = place % whole.length;
          const text = whole.slice(0, at) + insert + whole.slice(at + remove);
          let parses = true;
          try {
            JSON.parse(text);
          } catch {
            parses = false;
          }
          expect(refusal(text) !== 'invalid_json').toBe(parses);
        },
      ),
      { numRuns: 3_000 },
    );
  });
});
