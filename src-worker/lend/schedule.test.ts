import fc from 'fast-check';
import { afterEach, describe, expect, test } from 'vitest';
import { localTime, scheduleAllows, type LocalTime } from './schedule.ts';

const at = (day: number, time: string): LocalTime => ({
  day,
  minute: Number(time.slice(0, 2)) * 60 + Number(time.slice(3)),
});
const weekdays = [1, 2, 3, 4, 5];

describe('a schedule', () => {
  test('includes its start and not its end, on its days', () => {
    const office = [{ days: weekdays, from: '08:30', to: '17:00' }];
    expect(scheduleAllows(office, at(1, '08:29'))).toBe(false);
    expect(scheduleAllows(office, at(1, '08:30'))).toBe(true);
    expect(scheduleAllows(office, at(5, '16:59'))).toBe(true);
    expect(scheduleAllows(office, at(5, '17:00'))).toBe(false);
    expect(scheduleAllows(office, at(6, '12:00'))).toBe(false);
  });

  test('over midnight it belongs to the day of its start', () => {
    const fridayNight = [{ days: [5], from: '22:00', to: '06:00' }];
    expect(scheduleAllows(fridayNight, at(5, '23:59'))).toBe(true);
    expect(scheduleAllows(fridayNight, at(6, '05:59'))).toBe(true);
    expect(scheduleAllows(fridayNight, at(6, '06:00'))).toBe(false);
    expect(scheduleAllows(fridayNight, at(5, '05:00'))).toBe(false);
    expect(scheduleAllows([{ days: [6], from: '22:00', to: '06:00' }], at(0, '03:00'))).toBe(true);
  });

  test('from a time to itself is a whole day; none at all is never', () => {
    const sunday = [{ days: [0], from: '12:00', to: '12:00' }];
    expect(scheduleAllows(sunday, at(0, '12:00'))).toBe(true);
    expect(scheduleAllows(sunday, at(1, '11:59'))).toBe(true);
    expect(scheduleAllows(sunday, at(1, '12:00'))).toBe(false);
    expect(scheduleAllows([], at(0, '12:00'))).toBe(false);
  });

  test('the two halves of a day make a day', () => {
    const time = fc
      .integer({ min: 1, max: 1439 })
      .map((m) => `${String(Math.floor(m / 60)).padStart(2, '0')}:${String(m % 60).padStart(2, '0')}`);
    fc.assert(
      fc.property(
        time,
        fc.integer({ min: 0, max: 1439 }),
        fc.integer({ min: 0, max: 6 }),
        (cut, minute, day) => {
          const before = scheduleAllows([{ days: [day], from: '00:00', to: cut }], { day, minute });
          const after = scheduleAllows([{ days: [day], from: cut, to: '00:00' }], { day, minute });
          expect(before).toBe(!after);
        },
      ),
    );
  });
});

describe('the wall clock', () => {
  const zone = process.env['TZ'];
  afterEach(() => {
    if (zone === undefined) delete process.env['TZ'];
    else process.env['TZ'] = zone;
  });

  test('follows the change to summer time and back', () => {
    process.env['TZ'] = 'Europe/Berlin';
    const night = [{ days: [0], from: '02:00', to: '03:00' }];
    const allowed = (iso: string): boolean => scheduleAllows(night, localTime(Date.parse(iso)));
    // 2026-03-29: after 01:59 comes 03:00; the hour that is skipped never is.
    expect(localTime(Date.parse('2026-03-29T00:59:00Z'))).toEqual(at(0, '01:59'));
    expect(localTime(Date.parse('2026-03-29T01:00:00Z'))).toEqual(at(0, '03:00'));
    expect(allowed('2026-03-29T00:59:00Z')).toBe(false);
    expect(allowed('2026-03-29T01:00:00Z')).toBe(false);
    // 2026-10-25: 02:00 to 02:59 comes twice.
    expect(allowed('2026-10-25T00:30:00Z')).toBe(true);
    expect(allowed('2026-10-25T01:30:00Z')).toBe(true);
    expect(allowed('2026-10-25T02:00:00Z')).toBe(false);
  });
});
