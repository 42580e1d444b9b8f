import { isDeepStrictEqual } from 'node:util';
import { createFrameDecoder, encodeFrame } from '../../../src-main/nodejs/transport/frames.ts';
import { parsePreamble, parsePreambleReply } from '../../../src-main/nodejs/transport/preamble.ts';
import { preambleReplySchema, preambleSchema } from '../../../src-main/shared/protocol/join.ts';
import { LIMITS } from '../../../src-main/shared/protocol/version.ts';
import { readCorpus } from '../corpus.ts';
import { mutateBytes, mutateJsonText } from '../mutate.ts';
import type { Random } from '../random.ts';
import type { FuzzTarget } from '../target.ts';

/**
 * The framing of joins and preambles, in pieces of any size, and the preamble that is read by hand: it must agree
 * with its schema, and what it lets through must be bounded.
 */
export function createTarget(): FuzzTarget {
  const preambles = readCorpus('preambles.jsonl');
  const replies = readCorpus('preamble-replies.jsonl');
  const all = [...preambles, ...replies];
  return {
    run(random: Random) {
      const text = mutateJsonText(random, random.oneIn(3) ? replies : preambles);
      const frame = encodeFrame(text);
      const bytes = random.oneIn(2) ? frame : mutateBytes(random, frame, all.map(encodeFrame));
      const decoded = decodeInPieces(random, bytes);
      if (bytes === frame && frame.length - 4 <= LIMITS.preambleBytes && frame.length > 4) {
        const expected = Buffer.from(text).toString('utf8');
        if (decoded !== expected) throw new Error('a frame did not come out as it went in');
      }
      const json = decoded ?? text;
      const preamble = parsePreamble(json);
      const bySchema = preambleSchema.safeParse(parse(json));
      if (preamble && !(bySchema.success && isDeepStrictEqual(preamble, bySchema.data))) {
        throw new Error(`read by hand but not by the schema: ${json.slice(0, 500)}`);
      }
      if (!preamble && bySchema.success) throw new Error(`refused by hand: ${json.slice(0, 500)}`);
      const reply = parsePreambleReply(json);
      if (reply && !preambleReplySchema.safeParse(reply).success) {
        throw new Error(`an answer that is none: ${json.slice(0, 500)}`);
      }
    },
  };
}

function decodeInPieces(random: Random, bytes: Buffer): string | null {
  const decode = createFrameDecoder(LIMITS.preambleBytes);
  for (let at = 0; at < bytes.length;) {
    const end = Math.min(bytes.length, at + 1 + random.int(random.oneIn(2) ? 3 : 4_096));
    const progress = decode(bytes.subarray(at, end));
    if (progress.kind === 'error') return null;
    if (progress.kind === 'frame') return progress.json;
    at = end;
  }
  return null;
}

function parse(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    return null;
  }
}
