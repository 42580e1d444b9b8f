const names: Readonly<Record<string, string>> = { linux: 'Linux', darwin: 'macOS', win32: 'Windows' };

/** An operating system as people call it. @param platform as Node.js calls it */
export function systemName(platform: string): string {
  return names[platform] ?? platform;
}
