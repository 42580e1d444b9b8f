import { plainText } from '../../format/plain-text.ts';

/** CSI, OSC and other strings that end with BEL or ST, and two-character escapes (ECMA-48), also with C1 codes. */
const escapes =
  /(?:\u001b\[|\u009b)[0-?]*[ -/]*[@-~]|(?:\u001b[\]PX^_]|[\u009d\u0090\u0098\u009e\u009f])[^\u0007\u001b\u009c]*(?:\u0007|\u001b\\|\u009c)?|\u001b[ -/]*[0-~]/g;

/**
 * What a program printed, for the screen: colours and movements of terminals are left out, a line that was written
 * over shows as it was last, and whatever else steers the screen shows as `�`.
 */
export function terminalText(output: string): string {
  const lines = output.replace(escapes, '').replace(/\r+\n/g, '\n').split('\n');
  return plainText(lines.map(lastWritten).join('\n'), true);
}

function lastWritten(line: string): string {
  if (!line.includes('\r')) return line;
  return line.split('\r').findLast((part) => part !== '') ?? '';
}
