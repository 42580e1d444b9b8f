import { decodeJoinString, encodeJoinString } from '../../../src-main/nodejs/join-string.ts';
import { CoveyError } from '../../../src-main/shared/errors.ts';
import { clusterSecretSchema } from '../../../src-main/shared/domain/cluster-secret.ts';
import { pairingCodeSchema, startJoinBodySchema } from '../../../src-main/shared/api/joining.ts';
import { readCorpus } from '../corpus.ts';
import { mutateBytes, mutateJson } from '../mutate.ts';
import type { Random } from '../random.ts';
import type { FuzzTarget } from '../target.ts';

/** What people paste and type when they join. */
export function createTarget(): FuzzTarget {
  const corpus = readCorpus('join-strings.txt');
  const contents = corpus.map((text) =>
    Buffer.from(text.trim().slice('covey1.'.length), 'base64url').toString('utf8'),
  );
  return {
    run(random: Random) {
      const text = random.oneIn(2)
        ? mutateBytes(
            random,
            Buffer.from(random.pick(corpus)),
            corpus.map((one) => Buffer.from(one)),
          ).toString('utf8')
        : `covey1.${Buffer.from(mutateJson(random, random.pick(contents), contents)).toString('base64url')}`;
      const decoded = decodeJoinString(text);
      if (decoded.ok) {
        const again = decodeJoinString(encodeJoinString(decoded.value));
        if (!again.ok) throw new Error('a join string that was read cannot be written');
      } else if (!(decoded.error instanceof CoveyError) || decoded.error.code !== 'join_string_invalid') {
        throw new Error('refused with another error');
      } else if (decoded.error.message.length > 1_000) {
        throw new Error('the refusal repeats what was pasted');
      }
      pairingCodeSchema.safeParse(text);
      clusterSecretSchema.safeParse(text);
      startJoinBodySchema.safeParse({ joinString: text });
    },
  };
}
