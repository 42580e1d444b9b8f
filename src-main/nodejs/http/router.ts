import type { Access } from '#shared/api/access.ts';
import { CoveyError } from '#shared/errors.ts';
import { coveyShape, type ErrorShape } from './respond.ts';
import type { HttpCall } from './http-call.ts';

export interface HttpRoute {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** `/a/:x/b`; `:x` is one segment, a last segment `*x` is all that follows. */
  readonly path: string;
  /** Who may call it; the server makes sure of that before `handle`. */
  readonly access: Access;
  /** Its body is bytes and not JSON; for methods that no form of a page can send. */
  readonly bytes?: true;
  readonly handle: (call: HttpCall) => Promise<void> | void;
}

/** Routes below one prefix; errors there have one shape. */
export interface RouteGroup {
  /** `/v1`, without a slash at its end. */
  readonly prefix: string;
  readonly errorShape: ErrorShape;
  readonly routes: readonly HttpRoute[];
  /** The error for a path below the prefix that no route has; default: `route_not_found`. */
  readonly notFound?: (path: string) => CoveyError;
}

export interface Router {
  errorShape(path: string): ErrorShape;
  /** Whether the path is below the prefix of one. */
  hasGroup(path: string): boolean;
  /**
   * The route for a path, with its parameters decoded. HEAD goes to GET's route.
   * @throws CoveyError `route_not_found`, `method_not_allowed`, `invalid_request` for a malformed escape
   */
  match(method: string, path: string): { route: HttpRoute; params: Record<string, string> };
  /** Methods of the routes that have this path, for `Allow`. */
  allowed(path: string): string[];
}

export function createRouter(groups: readonly RouteGroup[]): Router {
  const routes = groups
    .flatMap((group) => group.routes)
    .map((route) => ({ route, segments: route.path.split('/') }));
  const groupOf = (path: string): RouteGroup | undefined =>
    groups.find(({ prefix }) => path === prefix || path.startsWith(`${prefix}/`));
  const allowed = (path: string): string[] => {
    const parts = path.split('/');
    const methods = routes
      .filter(({ segments }) => matches(segments, parts))
      .map(({ route }) => route.method);
    return [...new Set(methods)].flatMap((method) => (method === 'GET' ? ['GET', 'HEAD'] : [method]));
  };
  return {
    errorShape: (path) => groupOf(path)?.errorShape ?? coveyShape,
    hasGroup: (path) => groupOf(path) !== undefined,
    allowed,
    match(method, path) {
      const wanted = method === 'HEAD' ? 'GET' : method;
      const parts = path.split('/');
      const found = routes.find(({ route, segments }) => route.method === wanted && matches(segments, parts));
      if (found) return { route: found.route, params: parameters(found.segments, parts) };
      const methods = allowed(path);
      if (methods.length > 0) {
        throw new CoveyError(
          'method_not_allowed',
          `${path} answers to ${methods.join(', ')}, not to ${method}.`,
        );
      }
      const other = groupOf(path)?.notFound?.(path);
      throw other ?? new CoveyError('route_not_found', `There is nothing at ${path}.`);
    },
  };
}

function matches(segments: readonly string[], parts: readonly string[]): boolean {
  const rest = segments.at(-1)?.startsWith('*') === true;
  if (rest ? parts.length < segments.length : parts.length !== segments.length) return false;
  return segments.every((segment, index) => {
    if (segment.startsWith(':') || segment.startsWith('*')) return parts[index] !== '';
    return segment === parts[index];
  });
}

function parameters(segments: readonly string[], parts: readonly string[]): Record<string, string> {
  const params: Record<string, string> = {};
  segments.forEach((segment, index) => {
    if (segment.startsWith(':')) params[segment.slice(1)] = decode(parts[index] as string);
    if (segment.startsWith('*')) params[segment.slice(1)] = decode(parts.slice(index).join('/'));
  });
  return params;
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new CoveyError('invalid_request', 'The path has a malformed escape.', { field: 'path' });
  }
}
