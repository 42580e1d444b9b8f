import { CoveyError, type ErrorBody, type ErrorCode } from '#shared/errors.ts';
import type { NativeExit } from '../host/native-process.ts';
import { parseLogLine } from './server-output.ts';

const maxLines = 200;
const maxLineLength = 1_000;

/** The last lines of a program, for its account of what went wrong. */
export interface LogTail {
  readonly add: (line: string) => void;
  readonly lines: () => readonly string[];
}

export function createLogTail(): LogTail {
  const kept: string[] = [];
  return {
    add(line) {
      kept.push(line.slice(0, maxLineLength));
      if (kept.length > maxLines) kept.shift();
    },
    lines: () => kept,
  };
}

interface Rule {
  readonly pattern: RegExp;
  readonly code: ErrorCode;
  /** Made from the pattern's groups. */
  readonly say: (match: RegExpExecArray) => string;
}

/**
 * How the engine says what went wrong, most telling first, since one cause prints several lines (an allocation
 * that fails is followed by "error loading model", and that by "failed to load model"). The wording is that of
 * llama.cpp's `src/llama-model*.cpp`, `src/llama.cpp`, `ggml/src/ggml-rpc` and `ggml/src/gguf.cpp`.
 */
const rules: readonly Rule[] = [
  {
    pattern: /Remote RPC server crashed|Failed to connect to \S+|RPC handshake failed/,
    code: 'stage_lost',
    say: () => 'the connection to a stage broke off',
  },
  {
    pattern:
      /(?:failed to allocate|unable to allocate|cannot allocate|failed to alloc|out of memory|std::bad_alloc|cudaMalloc failed|failed to (?:create|initialize) (?:the )?context.*memory|insufficient memory)/i,
    code: 'engine_out_of_memory',
    say: (match) => `there is not enough memory for this model and context: ${match.input}`,
  },
  {
    pattern: /unknown model architecture: '([^']*)'/,
    code: 'engine_load_failed',
    say: (match) => `this engine does not know the model architecture "${match[1]}"`,
  },
  {
    pattern: /unknown (?:pre-)?tokenizer(?: type)?: '([^']*)'/,
    code: 'engine_load_failed',
    say: (match) => `this engine does not know the model's tokenizer "${match[1]}"`,
  },
  {
    pattern:
      /(?:is not within the file bounds|model is corrupted or incomplete|failed to read (?:key-value pairs|magic|header|tensor)|unexpectedly reached end of file|invalid magic|bad magic)/i,
    code: 'engine_load_failed',
    say: (match) =>
      `the model file is damaged or incomplete: ${match.input.replace(/^error loading model: /, '')}`,
  },
  {
    pattern: /failed to open GGUF file .*\((.+)\)/,
    code: 'engine_load_failed',
    say: (match) => `the model file could not be opened: ${match[1]}`,
  },
  { pattern: /error loading model: (.+)/, code: 'engine_load_failed', say: (match) => String(match[1]) },
  {
    pattern: /(?:failed to create_?\s?context|failed to initialize (?:the )?context)(.*)/i,
    code: 'engine_load_failed',
    say: (match) => `the model was read but could not be set up: ${match.input}`,
  },
  {
    pattern: /error: (?:unknown|invalid) (?:device|argument)[^:]*: ?(.+)/i,
    code: 'engine_start_failed',
    say: (match) => match.input,
  },
  { pattern: /error while handling argument .*/i, code: 'engine_start_failed', say: (match) => match.input },
  {
    pattern: /(?:GGML_ASSERT|GGML_ABORT)\(?.*|fatal error.*/i,
    code: 'engine_crashed',
    say: (match) => match[0],
  },
  {
    pattern: /(?:failed|error|unable|cannot|could not|couldn't)\b.*/i,
    code: 'engine_load_failed',
    say: (match) => match.input,
  },
];

/** `llama_model_load: error loading model: x` -> `error loading model: x`: names of functions tell users nothing. */
function withoutFunctionNames(message: string): string {
  return message
    .replace(/^\s*(?:[a-z0-9]+_[a-z0-9_]*(?:\(\))?:\s+|(?:srv|cmn|slot|que|res)\s+\S+:\s+)+/, '')
    .trim();
}

/**
 * Why a program ended, in one sentence from its own output.
 * @param expected `load`: it was not ready yet, so what it said last is why. `run`: only what is known to be
 * fatal counts, since a serving program also logs errors that it survived.
 */
export function explainExit(lines: readonly string[], exit: NativeExit, expected: 'load' | 'run'): ErrorBody {
  const messages = lines
    .map((line) => withoutFunctionNames(parseLogLine(line).message))
    .filter((text) => text !== '');
  for (const rule of rules) {
    if (expected === 'run' && rule.code !== 'stage_lost' && rule.code !== 'engine_crashed') continue;
    for (const message of messages) {
      const match = rule.pattern.exec(message);
      if (match) return { code: rule.code, message: sentence(rule.say(match)) };
    }
  }
  const how = describeExit(exit);
  if (exit.signal !== null || expected === 'run')
    return { code: 'engine_crashed', message: `the engine ${how}` };
  const last = messages.at(-1);
  return {
    code: 'engine_start_failed',
    message: sentence(`the engine ${how}${last ? `, its last words: ${last}` : ''}`),
  };
}

function describeExit(exit: NativeExit): string {
  if (exit.signal === 'SIGKILL')
    return 'was killed (SIGKILL): by someone, or by the system because memory ran out';
  if (exit.signal !== null) return `was ended by ${exit.signal}`;
  return `ended with code ${exit.code ?? 'unknown'}`;
}

function sentence(text: string): string {
  return text.replace(/\s+/g, ' ').trim().slice(0, 500);
}

export function engineError(body: ErrorBody): CoveyError {
  return CoveyError.fromBody(body);
}
