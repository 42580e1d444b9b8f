import { encodeFrame } from '../frames.ts';

/** The answer to a preamble that leads somewhere. */
export const accepted = encodeFrame(JSON.stringify({ ok: true }));
