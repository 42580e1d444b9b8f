import { apiEventSchema, type ApiEvent } from '#shared/api/schema.ts';

const maxEventCharacters = 16 * 1024 * 1024;

/**
 * Server-sent events whose data is an ApiEvent, from text that may be cut anywhere. Comments, and events of a
 * shape that is unknown, are passed over.
 * @throws Error for an event without an end
 */
export async function* readEvents(texts: AsyncIterable<string>): AsyncGenerator<ApiEvent, void> {
  let rest = '';
  for await (const text of texts) {
    rest += text;
    if (rest.length > maxEventCharacters) throw new Error('an event of more than 16 MiB');
    const blocks = rest.split(/\r?\n\r?\n/);
    rest = blocks.pop() ?? '';
    for (const block of blocks) {
      const event = readBlock(block);
      if (event !== null) yield event;
    }
  }
}

function readBlock(block: string): ApiEvent | null {
  const data = block
    .split(/\r?\n/)
    .filter((line) => line.startsWith('data:'))
    .map((line) => line.slice('data:'.length).trimStart())
    .join('\n');
  if (data === '') return null;
  try {
    return apiEventSchema.safeParse(JSON.parse(data)).data ?? null;
  } catch {
    return null;
  }
}
