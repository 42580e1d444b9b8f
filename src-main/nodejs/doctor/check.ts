import type { DoctorCheck } from '#shared/domain/doctor.ts';

/** What a check came to; `finishCheck` makes it fit for people. */
export interface Finding {
  readonly status: DoctorCheck['status'];
  /** One sentence. */
  readonly summary: string;
  /** One sentence, when there is something to do. */
  readonly action?: string | null;
}

const maxSentence = 480;

export function finishCheck(id: string, title: string, finding: Finding): DoctorCheck {
  const { status, summary, action } = finding;
  return {
    id,
    title,
    status,
    summary: sentence(summary),
    action: action == null || action.trim() === '' ? null : sentence(action),
  };
}

/**
 * One sentence of at most 480 characters, whatever stood in the text: names of programs and messages of the
 * system come from outside, so control characters go and several sentences become one.
 */
export function sentence(text: string): string {
  const joined = plain(text).replace(/[.!?]+(["')\]]*)\s+(?=["'([]?\p{Lu})/gu, '$1; ');
  const cut = joined.length <= maxSentence ? joined : `${cutAt(joined, maxSentence - 1).trimEnd()}…`;
  if (cut === '') return 'Nothing is known.';
  return /[.!?…]["')\]]*$/u.test(cut) ? cut : `${cut}.`;
}

/** The first sentence of a message from elsewhere, to stand inside one of ours: without its full stop. */
export function clause(text: string): string {
  const first = /^(.*?)[.!?]+["')\]]*(?=\s+["'([]?\p{Lu}|$)/su.exec(plain(text))?.[1] ?? plain(text);
  return first === '' ? 'no reason was given' : cutAt(first, 240);
}

/** `a`, `a and b`, `a, b and c`; beyond `most` it says how many more there are. */
export function listing(items: readonly string[], most = 4): string {
  const shown = items.slice(0, most);
  const rest = items.length - shown.length;
  if (rest > 0) return `${shown.join(', ')} and ${rest} more`;
  return shown.length < 2 ? shown.join('') : `${shown.slice(0, -1).join(', ')} and ${shown.at(-1)}`;
}

function plain(text: string): string {
  return text
    .replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]+/gu, ' ')
    .replace(/\s+/g, ' ')
    .trim();
}

/** Never through the middle of a character that takes two units. */
function cutAt(text: string, length: number): string {
  return text.slice(0, length).replace(/[\ud800-\udbff]$/, '');
}
