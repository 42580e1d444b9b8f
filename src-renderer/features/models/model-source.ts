import { parseHubSource } from '#shared/domain/hub-source.ts';

/** What was typed or pasted as a model of the hub, as `hf:owner/repo[/file.gguf]`; addresses of its pages too. */
export function hubSource(typed: string): string {
  const text = typed.trim();
  if (text.startsWith('hf:')) return text;
  const path = text.replace(/^https:\/\/(www\.)?huggingface\.co\//i, '').replace(/[?#].*$/, '');
  return `hf:${path.replace(/^([^/]+\/[^/]+)\/(?:blob|resolve|tree)\/[^/]+(?=\/|$)/, '$1').replace(/\/$/, '')}`;
}

/** Why it can never be downloaded, as a sentence; null: it may exist. */
export function sourceProblem(typed: string): string | null {
  if (/^[a-z][a-z0-9+.-]*:\/\//i.test(hubSource(typed).slice(3))) {
    return 'Only models of the hub are downloaded. Fetch a file from elsewhere yourself, then import it.';
  }
  const parsed = parseHubSource(hubSource(typed));
  return parsed.ok ? null : `${parsed.error.message}.`;
}
