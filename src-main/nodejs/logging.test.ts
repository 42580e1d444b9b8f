import { describe, expect, it } from 'vitest';
import { createLogger, type LogLine } from './logging.ts';

function capture(options: Parameters<typeof createLogger>[0] = {}) {
  const lines: string[] = [];
  const logger = createLogger({ now: () => 0, write: (line) => void lines.push(line), ...options });
  return { logger, lines };
}

describe('createLogger', () => {
  it('writes one JSON object per line, with the fields of its parents', () => {
    const { logger, lines } = capture({ format: 'json', fields: { role: 'worker' } });
    logger.child({ part: 'agent' }).warn('late', { ms: 12, gone: undefined });
    expect(lines.map((line) => JSON.parse(line) as unknown)).toEqual([
      {
        role: 'worker',
        part: 'agent',
        ms: 12,
        at: '1970-01-01T00:00:00.000Z',
        level: 'warn',
        message: 'late',
      },
    ]);
  });

  it('writes text that stays on one line and quotes what is not a word', () => {
    const { logger, lines } = capture();
    logger.info('two\nlines \u001b[31m', { path: '/a/b', text: 'a "b"\n' });
    expect(lines).toEqual(['1970-01-01T00:00:00.000Z info  two lines  [31m path=/a/b text="a \\"b\\"\\n"\n']);
  });

  it('leaves out levels below the lowest', () => {
    const { logger, lines } = capture({ level: 'warn' });
    logger.info('no');
    logger.error('yes');
    expect(lines).toHaveLength(1);
  });

  it('cuts anything that looks like a secret, in messages, fields and the tap', () => {
    const tapped: LogLine[] = [];
    const { logger, lines } = capture({ tap: (line) => void tapped.push(line) });
    const secret = 'ab12'.repeat(16);
    logger.info(`token ${secret}`, {
      grant: secret,
      join: `covey1.${'A'.repeat(40)}`,
      key: `Bearer covey_key_${'B'.repeat(43)}`,
      cluster: `covey-secret.${'c'.repeat(32)}`,
      pem: '-----BEGIN PRIVATE KEY-----\nMIGH\n-----END PRIVATE KEY-----\n',
    });
    const text = lines.join('') + JSON.stringify(tapped);
    expect(text).not.toContain(secret);
    expect(text).not.toMatch(/AAAA|BBBB|cccc/);
    expect(text).toContain('covey_key_…');
    expect(text).not.toContain('MIGH');
    expect(text).toContain('ab12ab12…');
  });
});
