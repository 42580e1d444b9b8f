/** Variables of our own environment that a native program needs to find its libraries, caches and temporary files. */
const passed = ['PATH', 'HOME', 'USERPROFILE', 'LOCALAPPDATA', 'SystemRoot', 'TEMP', 'TMP', 'TMPDIR'];

/**
 * The environment of an engine, built up and never inherited: `LLAMA_ARG_*` and `GGML_*` of a user's shell would
 * change what it does. Secrets go here and not into arguments, which every user of the machine can read.
 */
export function engineEnvironment(own: Readonly<Record<string, string>>): Record<string, string> {
  const environment: Record<string, string> = {};
  for (const name of passed) {
    const value = process.env[name];
    if (value !== undefined) environment[name] = value;
  }
  // An abort otherwise attaches a debugger to print a backtrace, which takes seconds in which nothing is known.
  return { ...environment, LC_ALL: 'C', GGML_NO_BACKTRACE: '1', ...own };
}
