/**
 * Loaded before a program (`NODE_OPTIONS=--import=...`), moves its wall clock by TEST_CLOCK_SHIFT_MS, as on a machine
 * whose date is wrong. Timers and `performance` go on as they do there.
 */
const shiftMs = Number(process.env.TEST_CLOCK_SHIFT_MS ?? 0);
const RealDate = Date;

class ShiftedDate extends RealDate {
  /** @param {ConstructorParameters<typeof Date>} values */
  constructor(...values) {
    super(...(values.length === 0 ? [RealDate.now() + shiftMs] : values));
  }

  static now() {
    return RealDate.now() + shiftMs;
  }
}

globalThis.Date = /** @type {DateConstructor} */ (ShiftedDate);
