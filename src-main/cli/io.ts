/** The world as the CLI sees it; tests pass their own. */
export interface CliIo {
  /** Results: one call, whole lines. */
  out(text: string): void;
  /** Progress, notes and errors. */
  err(text: string): void;
  /** Whether people read stdout / stderr on a terminal. */
  readonly outIsTty: boolean;
  readonly errIsTty: boolean;
  /** Columns of the terminal; 80 where there is none. */
  readonly columns: number;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly workingDirectory: string;
  /** Epoch ms. */
  now(): number;
  /** Resolves early, without error, when the signal aborts. */
  sleep(ms: number, signal: AbortSignal): Promise<void>;
  /** Ctrl-C and the request to end. Returns what removes the listener. */
  onInterrupt(listener: () => void): () => void;
  /**
   * One line typed by a person; null when nobody can answer, or when the signal aborts: then the question is taken
   * back. Throws `Exit` as interrupted at Ctrl-C.
   */
  ask(question: string, signal?: AbortSignal): Promise<string | null>;
  /**
   * One line that nobody should read over a shoulder or in a process list: typed without echo, or the first line of
   * standard input where that is no terminal. null: none came within a minute. Throws `Exit` as interrupted at Ctrl-C.
   */
  secretLine(question: string): Promise<string | null>;
  fileExists(path: string): boolean;
  /** Copies a database that may be in use. Given by the program: the command line itself knows no SQL. */
  copyDatabase(source: string, destination: string): Promise<void>;
}
