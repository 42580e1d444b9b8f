import { readFileSync, readdirSync, realpathSync } from 'node:fs';
import { join, relative } from 'node:path';

/** Base classes of PCI: interfaces, displays, bridges, processors and accelerators; and InfiniBand, a serial bus there. */
const shownClasses = ['02', '03', '06', '0b', '12'];
const infiniBand = '0c06';

/** Shown as they are: how processors and memory are built up. */
const topology = ['devices/system/cpu', 'devices/system/node'];
/** Links to what is shown besides; those that lead elsewhere lead nowhere. */
const indexes = ['class/net', 'class/infiniband', 'bus/pci'];
/** Files of a PCI device that hold serial numbers, or give access to the device itself. */
const ownersFiles = /^(vpd|rom|unique_id|serial_number|resource\d+(_wc)?)$/;

/**
 * Options of bubblewrap that show of /sys what NCCL, UCX and hwloc look for: interfaces, processors, and how the parts
 * of the machine are connected. Not disks, USB and the like, nor what the firmware says of the machine: names and
 * serial numbers of parts are nobody's business.
 * @param root where the system tells of devices; a test has one of its own
 */
export function networkDeviceOptions(root = '/sys'): string[] {
  const shown = (path: string): string => join('/sys', relative(root, path));
  const options: string[] = [];
  const bind = (path: string): void => void options.push('--ro-bind-try', path, shown(path));
  const bridges = namesIn(join(root, 'devices')).filter((name) => /^pci[0-9a-f]+:[0-9a-f]+$/.test(name));
  const bound = [...topology, ...bridges.map((name) => join('devices', name))].map((name) =>
    join(root, name),
  );
  for (const path of [...bound, ...indexes.map((name) => join(root, name))]) bind(path);
  // Interfaces that hang on no PCI bus: virtual ones, and those of small boards.
  for (const name of namesIn(join(root, 'class/net'))) {
    const device = realPath(join(root, 'class/net', name));
    if (device !== null && !bound.some((above) => isBelow(above, device))) bind(device);
  }
  const hidden: string[] = [];
  const devices = devicesOf(join(root, 'bus/pci/devices'));
  /** Gloo reads the class of every device on the bus, and gives up at one that has none. */
  const bindClasses = (some: readonly string[]): void =>
    some.forEach((device) => bind(join(device, 'class')));
  bindClasses(devices.filter((device) => !bound.some((above) => isBelow(above, device))));
  for (const device of devices) {
    if (!bound.some((above) => isBelow(above, device))) continue;
    if (hidden.some((above) => isBelow(above, device))) continue;
    if (isShown(device)) {
      for (const file of namesIn(device).filter((child) => ownersFiles.test(child))) {
        options.push('--ro-bind', '/dev/null', shown(join(device, file)));
      }
      continue;
    }
    hidden.push(device);
    options.push('--size', '4096', '--tmpfs', shown(device));
    bindClasses(devices.filter((other) => other === device || isBelow(device, other)));
    options.push('--remount-ro', shown(device));
  }
  return options;
}

/** Outer ones first. */
function devicesOf(index: string): string[] {
  return namesIn(index)
    .map((name) => realPath(join(index, name)))
    .filter((device) => device !== null)
    .sort();
}

function isShown(device: string): boolean {
  try {
    const code = readFileSync(join(device, 'class'), 'latin1').trim().replace(/^0x/, '');
    return shownClasses.includes(code.slice(0, 2)) || code.startsWith(infiniBand);
  } catch {
    return false;
  }
}

function isBelow(above: string, path: string): boolean {
  return path.startsWith(`${above}/`);
}

function realPath(path: string): string | null {
  try {
    return realpathSync(path);
  } catch {
    return null;
  }
}

function namesIn(directory: string): string[] {
  try {
    return readdirSync(directory);
  } catch {
    return [];
  }
}
