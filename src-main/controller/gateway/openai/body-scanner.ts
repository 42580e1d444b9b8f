import { Buffer } from 'node:buffer';
import { CoveyError } from '#shared/errors.ts';

/** What routing needs of a request's body. The body itself goes to the engine as it came. */
export interface RequestFacts {
  readonly model: string;
  readonly stream: boolean;
}

const maxDepth = 256;
const maxModelBytes = 4_096;
/** `\u006d...` for each letter of the longest key we look for. */
const maxKeyBytes = 6 * 'stream'.length;

const VALUE = 0;
const VALUE_OR_END = 1;
const KEY = 2;
const KEY_OR_END = 3;
const COLON = 4;
const COMMA_OR_END = 5;
const STRING = 6;
const ESCAPE = 7;
const UNICODE = 8;
const LITERAL = 9;
const NUMBER = 10;
const END = 11;

const quote = 0x22;
const backslash = 0x5c;
const literals = new Map(
  [0x74, 0x66, 0x6e].map((first, index) => [first, ['true', 'false', 'null'][index] as string]),
);
const numberPattern = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;
const maxNumberBytes = 1_024;

/**
 * Checks that a body is JSON and reads `model` and `stream` of its top level, while it arrives: no piece costs
 * more than a pass over its bytes, and nothing is built, so that a large body neither stalls other requests nor
 * takes memory beyond itself. Of a repeated key the last one counts, as for the engine.
 */
export class BodyScanner {
  #state = VALUE;
  #offset = 0;
  /** Open containers, innermost last; true: object. */
  readonly #open: boolean[] = [];
  /** The string at hand is a key. */
  #inKey = false;
  #unicodeLeft = 0;
  /** Bytes of the token at hand where it matters (keys and values of the top level, numbers), else null. */
  #token: number[] | null = null;
  #tokenLimit = 0;
  #literal = '';
  /** The top-level key whose value comes next. */
  #key = '';
  #model: string | null | undefined;
  #stream: boolean | null | undefined;
  #isObject = false;
  readonly #utf8 = new TextDecoder('utf-8', { fatal: true });

  /** @throws CoveyError `invalid_json` with the offset, `invalid_request` naming the field */
  push(bytes: Uint8Array): void {
    this.#checkUtf8(bytes);
    const length = bytes.length;
    for (let at = 0; at < length; at++) {
      if (this.#state === STRING) {
        // The long stretches of text, without a look at anything else.
        const token = this.#token;
        let byte = bytes[at] as number;
        while (byte !== quote && byte !== backslash && byte >= 0x20) {
          if (token !== null) this.#collect(token, byte);
          if (++at === length) break;
          byte = bytes[at] as number;
        }
        if (at === length) break;
      }
      this.#step(bytes[at] as number, this.#offset + at);
    }
    this.#offset += length;
  }

  /** The body has ended. @throws CoveyError as `push` */
  finish(): RequestFacts {
    this.#checkUtf8(null);
    if (this.#state === NUMBER && this.#open.length === 0) this.#endNumber();
    if (this.#state !== END) throw malformed('it ends too early', this.#offset);
    if (!this.#isObject) throw new CoveyError('invalid_request', 'The body must be a JSON object.');
    if (this.#model === undefined) {
      throw new CoveyError('invalid_request', 'The field "model" is missing.', { field: 'model' });
    }
    if (this.#model === null || this.#model === '') {
      throw new CoveyError('invalid_request', 'The field "model" must be the name of a model.', {
        field: 'model',
      });
    }
    if (this.#stream === null) {
      throw new CoveyError('invalid_request', 'The field "stream" must be true or false.', {
        field: 'stream',
      });
    }
    return { model: this.#model, stream: this.#stream ?? false };
  }

  #checkUtf8(bytes: Uint8Array | null): void {
    try {
      if (bytes === null) this.#utf8.decode();
      else this.#utf8.decode(bytes, { stream: true });
    } catch {
      throw new CoveyError('invalid_json', 'The body is not JSON: it is not valid UTF-8.');
    }
  }

  #step(byte: number, offset: number): void {
    switch (this.#state) {
      case STRING:
        if (byte < 0x20) throw malformed('a control character within a string', offset);
        if (byte === quote) return this.#endString();
        this.#state = ESCAPE;
        return this.#keep(byte);
      case ESCAPE:
        this.#keep(byte);
        if (byte === 0x75) {
          this.#unicodeLeft = 4;
          this.#state = UNICODE;
        } else if ('"\\/bfnrt'.includes(String.fromCharCode(byte))) this.#state = STRING;
        else throw malformed('an unknown escape within a string', offset);
        return;
      case UNICODE:
        if (!isHex(byte)) throw malformed('a malformed \\u escape', offset);
        this.#keep(byte);
        if (--this.#unicodeLeft === 0) this.#state = STRING;
        return;
      case LITERAL: {
        const token = this.#token as number[];
        if (byte !== this.#literal.charCodeAt(token.length)) throw malformed('an unknown word', offset);
        token.push(byte);
        if (token.length === this.#literal.length) this.#endValue(this.#literal);
        return;
      }
      case NUMBER:
        if (isNumberByte(byte)) return this.#keep(byte);
        this.#endNumber();
        return this.#structure(byte, offset);
      default:
        return this.#structure(byte, offset);
    }
  }

  #structure(byte: number, offset: number): void {
    if (byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09) return;
    switch (this.#state) {
      case VALUE:
        return this.#beginValue(byte, offset);
      case VALUE_OR_END:
        if (byte === 0x5d) return this.#close(false, offset);
        return this.#beginValue(byte, offset);
      case KEY:
      case KEY_OR_END:
        if (byte === quote) return this.#beginString(true, this.#open.length === 1 ? maxKeyBytes : 0);
        if (byte === 0x7d && this.#state === KEY_OR_END) return this.#close(true, offset);
        throw malformed('a key in double quotes is missing', offset);
      case COLON:
        if (byte !== 0x3a) throw malformed('":" is missing', offset);
        this.#state = VALUE;
        return;
      case COMMA_OR_END:
        if (byte === 0x2c) this.#state = this.#open.at(-1) === true ? KEY : VALUE;
        else if (byte === 0x7d || byte === 0x5d) this.#close(byte === 0x7d, offset);
        else throw malformed('"," or the end of a list or object is missing', offset);
        return;
      default:
        throw malformed('something follows its end', offset);
    }
  }

  #beginValue(byte: number, offset: number): void {
    const top = this.#open.length === 1 && this.#isObject;
    if (byte === quote) {
      this.#beginString(false, top && this.#key === 'model' ? maxModelBytes : 0);
    } else if (byte === 0x7b || byte === 0x5b) {
      if (this.#open.length === 0) this.#isObject = byte === 0x7b;
      if (this.#open.length === maxDepth) throw malformed(`it is nested deeper than ${maxDepth}`, offset);
      if (top) this.#record('');
      this.#open.push(byte === 0x7b);
      this.#state = byte === 0x7b ? KEY_OR_END : VALUE_OR_END;
    } else if (literals.has(byte)) {
      this.#literal = literals.get(byte) as string;
      this.#token = [byte];
      this.#state = LITERAL;
    } else if (isNumberByte(byte)) {
      this.#token = [byte];
      this.#tokenLimit = maxNumberBytes;
      this.#state = NUMBER;
    } else {
      throw malformed('a value is missing', offset);
    }
  }

  #beginString(isKey: boolean, tokenLimit: number): void {
    this.#inKey = isKey;
    this.#token = tokenLimit > 0 ? [] : null;
    this.#tokenLimit = tokenLimit;
    this.#state = STRING;
  }

  #endString(): void {
    const token = this.#token;
    if (!this.#inKey) return this.#endValue(token === null ? '' : `"${text(token)}"`);
    // A key that is too long to be one of ours was given up on.
    if (this.#open.length === 1) this.#key = token === null ? '' : (JSON.parse(`"${text(token)}"`) as string);
    this.#state = COLON;
  }

  #endNumber(): void {
    if (!numberPattern.test(text(this.#token ?? []))) throw malformed('a malformed number', this.#offset);
    this.#endValue('');
  }

  /** @param json the value where it matters, else anything that is neither a string nor a literal */
  #endValue(json: string): void {
    if (this.#open.length === 1 && this.#isObject) this.#record(json);
    this.#token = null;
    this.#state = this.#open.length === 0 ? END : COMMA_OR_END;
  }

  #record(json: string): void {
    if (this.#key === 'model') {
      this.#model = json.startsWith('"') ? (JSON.parse(json) as string) : null;
    } else if (this.#key === 'stream') {
      // null is how some clients say "not given".
      if (json === 'null') this.#stream = undefined;
      else this.#stream = json === 'true' ? true : json === 'false' ? false : null;
    }
  }

  #close(isObject: boolean, offset: number): void {
    if (this.#open.pop() !== isObject)
      throw malformed('a list or object is closed by the wrong bracket', offset);
    this.#state = this.#open.length === 0 ? END : COMMA_OR_END;
  }

  #keep(byte: number): void {
    if (this.#token !== null) this.#collect(this.#token, byte);
  }

  #collect(token: number[], byte: number): void {
    if (token.length < this.#tokenLimit) {
      token.push(byte);
    } else if (this.#inKey) {
      this.#token = null;
      // The loop over a string's bytes holds the list; it may fill up no further.
      this.#tokenLimit = 0;
    } else if (this.#state === NUMBER) {
      throw malformed('a number is too long', this.#offset);
    } else {
      throw new CoveyError('invalid_request', `The name of a model has at most ${maxModelBytes} bytes.`, {
        field: 'model',
      });
    }
  }
}

function text(token: readonly number[]): string {
  return Buffer.from(token).toString('utf8');
}

function isHex(byte: number): boolean {
  return (byte >= 0x30 && byte <= 0x39) || (byte >= 0x41 && byte <= 0x46) || (byte >= 0x61 && byte <= 0x66);
}

function isNumberByte(byte: number): boolean {
  // Digits, sign, point and exponent; their order is checked at the end.
  return (
    (byte >= 0x30 && byte <= 0x39) ||
    byte === 0x2d ||
    byte === 0x2b ||
    byte === 0x2e ||
    byte === 0x65 ||
    byte === 0x45
  );
}

function malformed(what: string, offset: number): CoveyError {
  return new CoveyError('invalid_json', `The body is not JSON: ${what} (byte ${offset}).`);
}
