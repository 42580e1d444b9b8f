import { expect, it } from 'vitest';
import { errorBodySchema } from './domain/error-body.ts';
import { boundedErrorBody, CoveyError, openAiError } from './errors.ts';

const long = 'x'.repeat(10_000);

it('a body of any length leaves as the schema lets it through, with the end of its sentence', () => {
  const reason = { code: 'model_not_found', message: `${long} is missing`, field: long };
  const error = new CoveyError('model_file_not_found', `${long}: there is no such file`, {
    field: long,
    reasons: Array.from({ length: 100 }, () => reason),
  });
  const body = error.toBody();
  expect(errorBodySchema.parse(body)).toEqual(body);
  expect(body.message).toMatch(/^x+ \.\.\. x+: there is no such file$/);
  expect(body.reasons?.[0]?.message).toMatch(/ is missing$/);
  expect(openAiError(error).error.message).toBe(body.message);
});

it('what fits stays as it is, and no character is cut in two', () => {
  const short = { code: 'timeout', message: 'x'.repeat(4_096), retryAfterS: 2 } as const;
  expect(boundedErrorBody(short)).toEqual(short);
  for (const lead of ['', 'x']) {
    const { message } = boundedErrorBody({ code: 'timeout', message: lead + '\u{1f600}'.repeat(5_000) });
    expect(message.isWellFormed()).toBe(true);
  }
});
