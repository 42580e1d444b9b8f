import { existsSync } from 'node:fs';

/** Why torch.distributed cannot be tried here, null: it can. Sandboxes see the system's packages, not a person's. */
export const torchMissing = existsSync('/usr/lib/python3/dist-packages/torch/distributed')
  ? null
  : 'python3-torch of Debian is not installed';
