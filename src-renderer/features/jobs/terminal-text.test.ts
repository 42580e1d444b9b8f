import { expect, it } from 'vitest';
import { terminalText } from './terminal-text.ts';

it.each([
  ['plain\n\tlines\n', 'plain\n\tlines\n'],
  ['\u001b[31mred\u001b[0m and \u001b[1;4mbold', 'red and bold'],
  ['\u001b]0;a new title\u0007text', 'text'],
  ['\u001b]8;;http://evil.example\u001b\\link\u001b]8;;\u001b\\', 'link'],
  ['\u001bPq secret \u001b\\after', 'after'],
  ['\u001b[2J\u001b[H\u001bccleared', 'cleared'],
  ['10 %\r50 %\r100 %\ndone\r\n', '100 %\ndone\n'],
  ['a\u0008b \u202eevil\u0000', 'a�b �evil�'],
  ['\u009b31mC1 \u009d0;title\u0007codes', 'C1 codes'],
  ['<img src=x onerror=alert(1)>', '<img src=x onerror=alert(1)>'],
  ['cut off \u001b]0;title', 'cut off '],
])('%j shows as %j', (output, text) => expect(terminalText(output)).toBe(text));
