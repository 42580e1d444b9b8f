/** Wall-clock time as an argument. `now` is epoch milliseconds. */
export interface Clock {
  now(): number;
}
