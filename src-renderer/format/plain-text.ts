/**
 * Text that comes from other machines, for one place on the screen: control characters (terminal escapes among
 * them), and those that are invisible or turn the direction of what follows, show as `�`. Line breaks stay when
 * `multiline`.
 */
export function plainText(text: string, multiline = false): string {
  return text.replace(/[\p{Cc}\p{Cf}\p{Co}\p{Cs}\u2028\u2029]/gu, (found) =>
    multiline && (found === '\n' || found === '\t') ? found : '\ufffd',
  );
}
