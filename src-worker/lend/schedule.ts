import type { LendRules } from '#shared/domain/lend.ts';

/** Wall clock time of this machine, as its people read it. */
export interface LocalTime {
  /** 0 Sunday ... 6 Saturday. */
  readonly day: number;
  /** Since midnight, 0 .. 1439. */
  readonly minute: number;
}

/**
 * Whether a schedule allows lending at that time. The wall clock decides: an hour that a change of the clocks
 * skips begins and ends nothing, and one that comes twice counts twice. A range includes its start, not its end;
 * one that ends before it begins, or when it begins, goes on over midnight and belongs to the day of its start.
 */
export function scheduleAllows(
  schedule: NonNullable<LendRules['schedule']>,
  { day, minute }: LocalTime,
): boolean {
  const dayBefore = (day + 6) % 7;
  return schedule.some(({ days, from, to }) => {
    const [start, end] = [minuteOf(from), minuteOf(to)];
    if (start < end) return days.includes(day) && minute >= start && minute < end;
    return (days.includes(day) && minute >= start) || (days.includes(dayBefore) && minute < end);
  });
}

/** Wall clock time at `now` (epoch ms) in the time zone of this process. */
export function localTime(now: number): LocalTime {
  const date = new Date(now);
  return { day: date.getDay(), minute: date.getHours() * 60 + date.getMinutes() };
}

function minuteOf(time: string): number {
  return Number(time.slice(0, 2)) * 60 + Number(time.slice(3));
}
