import type { Reading } from '../decide.ts';
import { unknown, type SensorSystem } from './system.ts';

/** What Windows told last. */
export interface WindowsSeen {
  readonly idleMs: Reading<number>;
  readonly onBattery: Reading<boolean>;
  readonly fullScreen: Reading<boolean>;
}

export interface WindowsWatch {
  read<T>(pick: (seen: WindowsSeen) => Reading<T>): Promise<Reading<T>>;
  close(): void;
}

/** Silence after which what was told last counts no more. */
const staleMs = 10_000;
/** A watch that ended is started again, but not in a loop. */
const restartMs = 30_000;

/**
 * GetLastInputInfo (milliseconds of the same clock as TickCount, which wraps), GetSystemPowerStatus (line 0: on
 * battery, 255: unknown) and SHQueryUserNotificationState (2 to 4: a program fills the screen, plays in it, or
 * presents), once a second. One PowerShell that lives, since starting one takes half a second of computing. It ends
 * when nobody reads its lines any more: writing fails then, and errors stop it.
 */
const script = `
$ErrorActionPreference = 'Stop'
Add-Type -TypeDefinition @"
using System; using System.Runtime.InteropServices;
public static class Seen {
  [StructLayout(LayoutKind.Sequential)] struct Input { public uint Size; public uint Time; }
  [StructLayout(LayoutKind.Sequential)] struct Power { public byte Line, Flag, Percent, System; public int Life, FullLife; }
  [DllImport("user32.dll")] static extern bool GetLastInputInfo(ref Input input);
  [DllImport("kernel32.dll")] static extern bool GetSystemPowerStatus(out Power power);
  [DllImport("shell32.dll")] static extern int SHQueryUserNotificationState(out int state);
  public static string Line() {
    var input = new Input(); input.Size = 8;
    long idle = GetLastInputInfo(ref input) ? unchecked((uint)Environment.TickCount - input.Time) : -1;
    Power power; int line = GetSystemPowerStatus(out power) ? power.Line : 255;
    int state; if (SHQueryUserNotificationState(out state) != 0) state = -1;
    return idle + " " + line + " " + state;
  }
}
"@
while ($true) { [Console]::Out.WriteLine([Seen]::Line()); Start-Sleep -Seconds 1 }
`;

/** Begins when it is first asked: on other systems, and where no rule asks, nothing runs. */
export function createWindowsWatch(system: SensorSystem): WindowsWatch {
  let running: { end(): void } | null = null;
  let startedAt = -Infinity;
  let seen: WindowsSeen | null = null;
  let seenAt = -Infinity;
  let reason = 'Windows has told nothing yet';
  let closed = false;

  const ensureRunning = (): void => {
    if (running || closed || system.now() - startedAt < restartMs) return;
    startedAt = system.now();
    const encoded = Buffer.from(script, 'utf16le').toString('base64');
    running = system.watch(
      'powershell.exe',
      ['-NoLogo', '-NoProfile', '-NonInteractive', '-EncodedCommand', encoded],
      {
        line(line) {
          const parsed = parseWindowsLine(line);
          if (!parsed) return;
          seen = parsed;
          seenAt = system.now();
        },
        end(why) {
          running = null;
          reason = why;
        },
      },
    );
  };

  return {
    async read(pick) {
      ensureRunning();
      return seen && system.now() - seenAt < staleMs ? pick(seen) : unknown(reason);
    },
    close() {
      closed = true;
      running?.end();
    },
  };
}

/** `IDLE_MS LINE STATE`, see the script; null: something else was printed. */
export function parseWindowsLine(text: string): WindowsSeen | null {
  const match = /^(-?\d+) (\d+) (-?\d+)\s*$/.exec(text);
  if (!match) return null;
  const [idleMs, line, state] = match.slice(1).map(Number) as [number, number, number];
  return {
    idleMs: idleMs >= 0 ? { known: true, value: idleMs } : unknown('Windows does not tell the last input'),
    onBattery:
      line <= 1 ? { known: true, value: line === 0 } : unknown('Windows does not know its power source'),
    fullScreen:
      state >= 0
        ? { known: true, value: state >= 2 && state <= 4 }
        : unknown('Windows does not tell what fills the screen'),
  };
}
