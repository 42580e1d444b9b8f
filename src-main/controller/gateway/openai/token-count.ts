import { Buffer } from 'node:buffer';

/**
 * Events of llama-server's streams that carry no token: the last with the reason for the end, and `[DONE]`; in
 * chats the first too, which has the role. (tools/server/server-context.cpp writes one event a token.)
 */
const withoutToken = { chat: 3, other: 2 } as const;
const usageField = Buffer.from('"completion_tokens":');

/**
 * Counts the tokens of one answer as it streams by, without reading it: by its events. The last two events count
 * only when others follow, so that the sum is right at the end; one that tells the usage counts as a token.
 * @param add gets what has been added since it was last called, more than 0
 */
export function createTokenCount(
  path: string,
  add: (tokens: number) => void,
): { events(count: number): void; whole(body: Buffer): void } {
  const extra = path.endsWith('/chat/completions') ? withoutToken.chat : withoutToken.other;
  let told = 0;
  return {
    events(count) {
      const tokens = count - extra;
      if (tokens <= told) return;
      add(tokens - told);
      told = tokens;
    },
    /** An answer that came whole says how many they were. */
    whole(body) {
      const at = body.lastIndexOf(usageField);
      if (at < 0) return;
      const digits = body.toString('latin1', at + usageField.length, at + usageField.length + 12);
      const tokens = Number.parseInt(digits, 10);
      if (tokens > 0) add(tokens);
    },
  };
}
