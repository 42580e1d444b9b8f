import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { findProgram } from '../lib/run.mjs';
import { runCommand } from './command.mjs';

const askMs = 30_000;

/**
 * @typedef {object} Toolchain
 * @property {string} cmake absolute path
 * @property {string} git absolute path
 * @property {string[]} generator arguments that choose CMake's generator
 */

/**
 * What identifies the C++ compiler that CMake will find, without running CMake: part of the cache key.
 * @returns {Promise<string | null>} null when there is none
 */
export async function compilerIdentity() {
  if (process.platform === 'win32') return visualStudioVersion();
  const compiler = process.env['CXX'] ?? 'c++';
  if (findProgram(compiler) === null && !existsSync(compiler)) return null;
  const answer = await runCommand(compiler, ['--version'], { timeoutMs: askMs });
  // The command line tools' stand-in on macOS exists without a compiler behind it, and fails.
  if (answer.code !== 0) return null;
  return createHash('sha256').update(`${compiler}\n${answer.stdout}`).digest('hex');
}

async function visualStudioVersion() {
  // A developer prompt says which compiler it set up; otherwise CMake takes the newest installation.
  const prompt = process.env['VCToolsVersion'];
  if (prompt !== undefined) return `msvc ${prompt}`;
  const programs = process.env['ProgramFiles(x86)'] ?? 'C:\\Program Files (x86)';
  const vswhere = path.join(programs, 'Microsoft Visual Studio', 'Installer', 'vswhere.exe');
  if (!existsSync(vswhere)) return null;
  const answer = await runCommand(
    vswhere,
    [
      ...['-latest', '-products', '*', '-property', 'installationVersion'],
      ...['-requires', 'Microsoft.VisualStudio.Component.VC.Tools.x86.x64'],
    ],
    { timeoutMs: askMs },
  );
  const version = answer.stdout.trim();
  return answer.code === 0 && version !== '' ? `visual studio ${version}` : null;
}

/**
 * The programs that a build needs.
 * @param {string | null} compiler from compilerIdentity
 * @returns {Toolchain}
 * @throws {Error} naming all that is missing, and how to install it here
 */
export function requireToolchain(compiler) {
  const cmake = findProgram('cmake');
  const git = findProgram('git');
  /** @type {('cmake' | 'compiler' | 'git')[]} */
  const missing = [];
  if (cmake === null) missing.push('cmake');
  if (compiler === null) missing.push('compiler');
  if (git === null) missing.push('git');
  const ninja = findProgram('ninja');
  const maker = process.platform === 'win32' || ninja !== null ? '' : findProgram('make');
  if (maker === null && !missing.includes('compiler')) missing.push('compiler');
  if (cmake === null || git === null || missing.length > 0) {
    const names = { cmake: 'CMake', compiler: 'a C++ compiler with make', git: 'git' };
    throw new Error(
      `building the engine needs ${missing.map((name) => names[name]).join(', ')}, which this machine lacks. ` +
        `${installHint(missing)} Then run this again.`,
    );
  }
  // On Windows Ninja works only where a developer prompt has set up the compiler.
  const useNinja = ninja !== null && (process.platform !== 'win32' || findProgram('cl') !== null);
  if (useNinja) return { cmake, git, generator: ['-G', 'Ninja'] };
  return { cmake, git, generator: process.platform === 'win32' ? [] : ['-G', 'Unix Makefiles'] };
}

/** @param {readonly ('cmake' | 'compiler' | 'git')[]} missing */
function installHint(missing) {
  const pick = (names) => missing.map((name) => names[name]).join(' ');
  if (process.platform === 'darwin') {
    const steps = [];
    if (missing.includes('compiler') || missing.includes('git')) steps.push('"xcode-select --install"');
    if (missing.includes('cmake')) steps.push('"brew install cmake"');
    return `Run ${steps.join(' and ')}.`;
  }
  if (process.platform === 'win32') {
    const steps = [];
    if (missing.includes('compiler')) {
      steps.push('install Visual Studio Build Tools with "Desktop development with C++"');
    }
    if (missing.includes('cmake')) steps.push('run "winget install Kitware.CMake"');
    if (missing.includes('git')) steps.push('run "winget install Git.Git"');
    const sentence = steps.join(', ');
    return `${sentence.charAt(0).toUpperCase()}${sentence.slice(1)}.`;
  }
  const commands = {
    debian: `sudo apt-get install ${pick({ cmake: 'cmake', compiler: 'g++ make', git: 'git' })}`,
    fedora: `sudo dnf install ${pick({ cmake: 'cmake', compiler: 'gcc-c++ make', git: 'git' })}`,
    suse: `sudo zypper install ${pick({ cmake: 'cmake', compiler: 'gcc-c++ make', git: 'git' })}`,
    arch: `sudo pacman -S ${pick({ cmake: 'cmake', compiler: 'gcc make', git: 'git' })}`,
  };
  const family = linuxFamily();
  const command = family === null ? null : commands[family];
  return command === null ? `On Debian or Ubuntu: "${commands.debian}".` : `Run "${command}".`;
}

/** @returns {'debian' | 'fedora' | 'suse' | 'arch' | null} */
function linuxFamily() {
  try {
    const release = readFileSync('/etc/os-release', 'utf8');
    const ids = [...release.matchAll(/^ID(?:_LIKE)?="?([^"\n]*)"?$/gm)].map((match) => match[1]).join(' ');
    if (/debian|ubuntu/.test(ids)) return 'debian';
    if (/fedora|rhel|centos/.test(ids)) return 'fedora';
    if (/suse/.test(ids)) return 'suse';
    if (/arch/.test(ids)) return 'arch';
  } catch {
    // Not a Linux that says what it is.
  }
  return null;
}
