import { expect, it } from 'vitest';
import { pathProblem } from './file-path.ts';

it('says which path can be none on a machine', () => {
  expect(pathProblem('/home/me/m.gguf', 'linux')).toBeNull();
  expect(pathProblem(' /home/me/m.gguf ', 'darwin')).toBeNull();
  expect(pathProblem('C:\\m.gguf', 'win32')).toBeNull();
  expect(pathProblem('\\\\nas\\m.gguf', 'win32')).toBeNull();
  expect(pathProblem('C:\\m.gguf', null)).toBeNull();
  expect(pathProblem('C:\\m.gguf', 'linux')).toMatch(/first \//);
  expect(pathProblem('/m.gguf', 'win32')).toMatch(/drive/);
  expect(pathProblem('~/m.gguf', 'linux')).toMatch(/~/);
  expect(pathProblem('m.gguf', null)).toMatch(/whole path/);
  expect(pathProblem('/m\u0007.gguf', 'linux')).toMatch(/control/);
});
