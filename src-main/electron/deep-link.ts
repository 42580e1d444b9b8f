import { CoveyError } from '#shared/errors.ts';
import { err, ok, type Result } from '#shared/lib/result.ts';
import type { JoinStringContent } from '#shared/protocol/join.ts';
import { decodeJoinString } from '../nodejs/join-string.ts';

export interface JoinLink {
  readonly joinString: string;
  readonly content: JoinStringContent;
}

const maxLinkCharacters = 8_192;

/**
 * Reads `covey://join/JOIN-STRING`. Any page and any mail may hold such a link, so what it says is a wish: nothing
 * happens before a person has agreed to it (`joinQuestion`).
 */
export function readLink(link: string): Result<JoinLink, CoveyError> {
  const refuse = (message: string) => err(new CoveyError('join_string_invalid', message, { field: 'link' }));
  if (link.length > maxLinkCharacters) return refuse('The link is too long to be one of Covey.');
  const match = /^covey:\/\/join\/([^/?#]+)\/?$/i.exec(link.trim());
  if (!match?.[1]) return refuse('Covey knows links of the form covey://join/... only.');
  let joinString: string;
  try {
    joinString = decodeURIComponent(match[1]);
  } catch {
    return refuse('The link is damaged.');
  }
  const content = decodeJoinString(joinString);
  return content.ok ? ok({ joinString, content: content.value }) : content;
}

/**
 * What the person is asked, with what they can compare: who the controller is and its fingerprint.
 * @param name what the controller calls itself in announcements, null when it is not heard here
 * @param now epoch ms
 */
export function joinQuestion(
  { controllerId, addresses, expiresAt }: JoinStringContent,
  name: string | null,
  now: number,
): { readonly message: string; readonly detail: string } {
  const who = name === null ? 'a controller that is not heard on this network' : `the controller "${name}"`;
  const places = addresses.map(({ host, port }) => `${host}:${port}`).slice(0, 4);
  return {
    message: `Lend this computer to ${who}?`,
    detail: [
      `Address: ${places.join(', ') || 'none given'}`,
      `Fingerprint: ${fingerprint(controllerId)}`,
      expiresAt <= now ? 'The invitation has expired.' : '',
      'Whoever runs this controller can use this computer for their models. Agree only if you know them.',
    ]
      .filter((line) => line !== '')
      .join('\n'),
  };
}

/** The first 32 digits in groups of four, as `covey status` shows them: enough to compare by eye. */
function fingerprint(nodeId: string): string {
  return (nodeId.slice(0, 32).match(/.{4}/g) ?? []).join(' ');
}
