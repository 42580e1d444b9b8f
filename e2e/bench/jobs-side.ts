/** What does the work. Times are in milliseconds. */
export interface JobsSide {
  /** Does so much that is nothing, and resolves to the time from the beginning of asking to the last end. */
  many(count: number): Promise<number>;
  /** The same of one, with nothing else to do. */
  one(): Promise<number>;
  /** Processor time of what gives out the work: our controller, Redis. */
  cpuMs(): number;
  workersCpuMs(): number;
  close(): Promise<void>;
}
