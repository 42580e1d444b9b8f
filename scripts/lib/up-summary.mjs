import path from 'node:path';
import { inRoot } from './paths.mjs';

/**
 * What `npm run up` prints at the end, in at most 80 columns unless a name or path is longer.
 * @param {object} facts
 * @param {string} facts.api `http://127.0.0.1:7878`
 * @param {import('../../src-main/shared/domain/deployment.ts').DeploymentView} facts.deployment
 * @param {string} facts.about where the model is from
 * @param {string} facts.prompt
 * @param {string} facts.answer how the model went on
 * @param {string} facts.link opens the dashboard, once
 * @param {number} facts.linkMinutes how long
 * @param {string | null} facts.invitation a join string that works from other machines
 * @param {string} facts.directory where the data and logs are
 * @param {string} facts.controllerData the controller's own directory: it holds the token for `covey`
 */
export function summary(facts) {
  const { api, deployment, about, prompt, answer, invitation, directory, controllerData } = facts;
  const parts = deployment.stages.map(
    (stage) => `${stage.nodeName} ${stage.layers} of ${deployment.layersTotal} layers`,
  );
  const covey = `node ${path.relative(process.cwd(), inRoot('bin', 'covey.mjs'))}`;
  const at = ` --data ${path.relative(process.cwd(), controllerData) || '.'}`;
  return [
    '',
    'Covey is up: one model, split over two workers, behind one endpoint.',
    '',
    `  Endpoint  ${api}/v1  (any OpenAI client; no key)`,
    `  API       ${api}/api`,
    `  Model     ${deployment.model}  (${about})`,
    `  Split     ${parts.join(' + ')}`,
    `  Data      ${path.relative(process.cwd(), directory) || '.'}  (logs too)`,
    '',
    `Look at it in a browser on this machine (once, for ${facts.linkMinutes} minutes):`,
    '',
    `  ${facts.link}`,
    '',
    `It says: "${oneLine(prompt + answer, 60)}"`,
    '',
    'Try it:',
    '',
    curl(api, deployment.model, prompt),
    '',
    'See more:',
    '',
    `  ${covey} open${at}    # another link`,
    `  ${covey} nodes${at}`,
    `  ${covey} deployments info ${deployment.id}${at}`,
    '',
    ...(invitation === null
      ? [
          'Add a second machine: the cluster port is on loopback now, so stop this and',
          'start it where other machines reach it. It prints the join command then:',
          '',
          '  npm run up -- --cluster 0.0.0.0:7879',
        ]
      : [
          'Add a second machine: run this in its own checkout and paste the line below (it',
          'works once, for an hour; the cluster port of this machine must be open in its',
          'firewall). Where Covey is installed the command is "covey worker --join -":',
          '',
          '  node bin/covey.mjs worker --join -',
          '',
          invitation,
        ]),
    '',
    'Ctrl-C ends all of it.',
    '',
  ].join('\n');
}

/** A command for a POSIX shell; quotes in names survive. */
export function curl(api, model, prompt) {
  const quoted = (value) => JSON.stringify(value).replaceAll("'", "'\\''");
  return [
    `  curl ${api}/v1/completions \\`,
    `    -H 'content-type: application/json' \\`,
    `    -d '{"model": ${quoted(model)}, "prompt": ${quoted(prompt)},`,
    `         "temperature": 0, "max_tokens": 64}'`,
  ].join('\n');
}

function oneLine(text, width) {
  const flat = text.replace(/\s+/g, ' ').replace(/[^\p{L}\p{N}\p{P}\p{S} ]/gu, '?');
  return flat.length <= width ? flat : `${flat.slice(0, width - 3)}...`;
}
