import { z } from 'zod';
import type { apiRoutes, ApiRoute } from './schema.ts';

/** What a call of a route takes and answers, by its schemas: for every client of `/api`. */
type Routes = typeof apiRoutes;
/** Routes that answer with JSON: all but the event stream. */
export type JsonRoute = Exclude<ApiRoute, 'events'>;
/**
 * `Idempotency-Key`: names one submission. Whoever gets no answer may ask again with the same key, and it is done
 * once. `POST /api/jobs` knows it.
 */
export const idempotencyKeySchema = z
  .string()
  .min(8)
  .max(128)
  .regex(/^[\w.:-]+$/, 'must be letters, digits and _.:-');

/** AbortSignal as the runtime that includes this declares it; shared code itself knows of none. */
type RuntimeSignal = typeof globalThis extends { AbortSignal: { prototype: infer Signal } } ? Signal : never;

type PathParameters<Path extends string> = Path extends `${string}/:${infer Name}/${infer Rest}`
  ? Name | PathParameters<`/${Rest}`>
  : Path extends `${string}/:${infer Name}`
    ? Name
    : never;
type Parameters<R extends JsonRoute> =
  PathParameters<Routes[R]['path']> extends never
    ? { readonly params?: undefined }
    : { readonly params: Readonly<Record<PathParameters<Routes[R]['path']>, string>> };
type Body<R extends JsonRoute> = Routes[R] extends { readonly body: infer Schema extends z.ZodType }
  ? { readonly body: z.input<Schema> }
  : { readonly body?: undefined };
export type ApiAnswer<R extends JsonRoute> = z.output<Routes[R]['response']>;
export type CallOptions<R extends JsonRoute> = Parameters<R> &
  Body<R> & {
    readonly query?: Readonly<Record<string, string>>;
    /** Time until the whole answer is there; default 30 s. */
    readonly timeoutMs?: number;
    readonly signal?: RuntimeSignal;
    /** See `idempotencyKeySchema`. */
    readonly idempotencyKey?: string;
  };
/** Options may be left out where the route wants none. */
export type CallArguments<R extends JsonRoute> =
  Record<never, never> extends CallOptions<R> ? [CallOptions<R>?] : [CallOptions<R>];

/** `/api/nodes/:node` with `{ node: 'a b' }` is `/api/nodes/a%20b`. */
export function fillPath(path: string, params: Readonly<Record<string, string>>): string {
  return path.replace(/:(\w+)/g, (_whole, name: string) => encodeURIComponent(params[name] ?? ''));
}
