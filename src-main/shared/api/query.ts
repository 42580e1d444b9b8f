import { z } from 'zod';

/** Of a query: a comma between values means "one of them". */
export const oneOf = z
  .string()
  .min(1)
  .max(1_024)
  .transform((text) => [...new Set(text.split(','))]);
