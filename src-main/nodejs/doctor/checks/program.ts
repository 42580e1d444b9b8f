import { clause, type Finding } from '../check.ts';
import type { DoctorContext } from '../context.ts';
import type { DoctorSystem } from '../system.ts';

const lowestNode = 24;

export function checkProgram(context: DoctorContext, system: DoctorSystem): Finding {
  const major = Number(system.nodeVersion.split('.')[0]);
  const what = `Covey ${context.version} on Node.js ${system.nodeVersion}`;
  if (major < lowestNode) {
    return {
      status: 'fail',
      summary: `${what}, which needs Node.js ${lowestNode} or newer`,
      action: `Install Node.js ${lowestNode}`,
    };
  }
  return { status: 'ok', summary: what };
}

export function checkEngine({ engine, node }: DoctorContext): Finding {
  if (engine.buildId !== null) return { status: 'ok', summary: `The engine is build ${engine.buildId}` };
  // The reason says itself what to run; a controller alone computes nothing.
  const summary = `There is no usable engine: ${clause(engine.reason)}`;
  if (node !== null && !node.lends) return { status: 'skipped', summary };
  return {
    status: 'fail',
    summary,
    action: 'Run "npm run build:engine" in a checkout, or install Covey again',
  };
}

export function checkSettings({ settingsProblem }: DoctorContext): Finding {
  if (settingsProblem === null) return { status: 'ok', summary: 'The settings in config.json read well' };
  return {
    status: 'fail',
    summary: `No node starts with these settings: ${clause(settingsProblem.message)}`,
    action: 'Correct that line of config.json in the data directory, or move the file away',
  };
}
