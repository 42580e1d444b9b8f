import { z } from 'zod';
import { errorLimits, isErrorCode, type ErrorBody, type ErrorCode } from '../errors.ts';

export const errorReasonSchema = z.object({
  code: z.string().max(64),
  message: z.string().max(errorLimits.reasonMessage),
  field: z.string().max(errorLimits.field).optional(),
  nodeId: z.string().max(64).optional(),
  neededBytes: z.number().optional(),
  availableBytes: z.number().optional(),
});

/** `ErrorBody` from outside. A code of a newer version that we do not know becomes `internal_error`. */
export const errorBodySchema: z.ZodType<ErrorBody> = z.object({
  code: z
    .string()
    .max(64)
    .transform((code): ErrorCode => (isErrorCode(code) ? code : 'internal_error')),
  message: z.string().max(errorLimits.message),
  field: z.string().max(errorLimits.field).optional(),
  reasons: z.array(errorReasonSchema).max(errorLimits.reasons).optional(),
  retryAfterS: z.number().nonnegative().optional(),
});
