import { z } from 'zod';

export const kernelNameSchema = z.enum(['sum', 'xor', 'dot_product', 'min', 'max', 'histogram']);
export type KernelName = z.infer<typeof kernelNameSchema>;

export const elementTypeSchema = z.enum(['i32', 'i64', 'f32', 'f64', 'u8', 'u16', 'u32', 'u64']);
export type ElementType = z.infer<typeof elementTypeSchema>;

export const elementBytes: Readonly<Record<ElementType, number>> = {
  u8: 1,
  u16: 2,
  i32: 4,
  u32: 4,
  f32: 4,
  i64: 8,
  u64: 8,
  f64: 8,
};

const everyType = elementTypeSchema.options;

/** Which types a kernel takes. */
export const kernelTypes: Readonly<Record<KernelName, readonly ElementType[]>> = {
  sum: ['i32', 'i64', 'f32', 'f64'],
  xor: ['u8', 'u16', 'u32', 'u64'],
  dot_product: ['i32', 'f32', 'f64'],
  min: everyType,
  max: everyType,
  histogram: everyType,
};

export const kernelCallSchema = z.strictObject({
  kernel: kernelNameSchema,
  type: elementTypeSchema,
  /** `histogram`: equal bins over [low, high); so many that a partial result of it fits into a report. */
  bins: z.number().int().min(1).max(4_096).optional(),
  low: z.number().optional(),
  high: z.number().optional(),
});
export type KernelCall = z.infer<typeof kernelCallSchema>;
