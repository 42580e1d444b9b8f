/**
 * The error catalogue: every error that leaves a process has its code here. `/api` answers with
 * `{error: {code, message, ...}}`, `/v1` with OpenAI's shape; both take status and retryable from this table.
 */
interface CatalogueEntry {
  /** HTTP status. */
  readonly status: number;
  /** Whether the same request may succeed later with nothing changed by the caller. */
  readonly retryable: boolean;
  /** OpenAI's `error.type`. */
  readonly type:
    | 'invalid_request_error'
    | 'authentication_error'
    | 'permission_error'
    | 'not_found_error'
    | 'conflict_error'
    | 'server_error'
    | 'rate_limit_error';
}

const badRequest: CatalogueEntry = { status: 400, retryable: false, type: 'invalid_request_error' };
const notFound: CatalogueEntry = { status: 404, retryable: false, type: 'not_found_error' };
const conflict: CatalogueEntry = { status: 409, retryable: false, type: 'conflict_error' };
const unavailable: CatalogueEntry = { status: 503, retryable: true, type: 'server_error' };
const forbidden: CatalogueEntry = { status: 403, retryable: false, type: 'permission_error' };
const internal: CatalogueEntry = { status: 500, retryable: false, type: 'server_error' };

export const errorCatalogue = {
  // Input
  invalid_request: badRequest,
  invalid_json: badRequest,
  body_too_large: { status: 413, retryable: false, type: 'invalid_request_error' },
  unsupported_media_type: { status: 415, retryable: false, type: 'invalid_request_error' },
  route_not_found: notFound,
  method_not_allowed: { status: 405, retryable: false, type: 'invalid_request_error' },
  request_timeout: { status: 408, retryable: true, type: 'invalid_request_error' },
  host_not_allowed: forbidden,
  origin_not_allowed: forbidden,
  token_missing: { status: 401, retryable: false, type: 'authentication_error' },
  token_invalid: { status: 401, retryable: false, type: 'authentication_error' },
  key_missing: { status: 401, retryable: false, type: 'authentication_error' },
  key_invalid: { status: 401, retryable: false, type: 'authentication_error' },
  admin_required: forbidden,
  owner_required: forbidden,
  login_code_invalid: forbidden,
  key_not_found: notFound,
  setting_unknown: badRequest,
  lan_needs_key: conflict,
  headers_too_large: { status: 431, retryable: false, type: 'invalid_request_error' },
  too_many_requests: { status: 429, retryable: true, type: 'rate_limit_error' },
  // Things that are not there
  model_not_found: notFound,
  deployment_not_found: notFound,
  node_not_found: notFound,
  node_ambiguous: badRequest,
  node_name_taken: conflict,
  model_ambiguous: badRequest,
  job_not_found: notFound,
  task_not_found: notFound,
  artifact_not_found: notFound,
  // Jobs
  job_invalid: badRequest,
  job_finished: conflict,
  job_not_finished: conflict,
  job_too_large: { status: 413, retryable: false, type: 'invalid_request_error' },
  dataset_invalid: badRequest,
  no_node_for_job: unavailable,
  commands_forbidden: forbidden,
  network_forbidden: forbidden,
  sandbox_unavailable: forbidden,
  /** A machine has no program of the name that a job asks for, or not the interpreter of that script. */
  program_not_found: { status: 422, retryable: false, type: 'invalid_request_error' },
  task_failed: { status: 500, retryable: false, type: 'server_error' },
  task_crashed: { status: 500, retryable: true, type: 'server_error' },
  task_timeout: { status: 500, retryable: true, type: 'server_error' },
  task_lost: unavailable,
  task_output_too_large: { status: 413, retryable: false, type: 'invalid_request_error' },
  task_memory_exceeded: { status: 500, retryable: false, type: 'server_error' },
  partition_poisoned: { status: 500, retryable: false, type: 'server_error' },
  gang_incomplete: unavailable,
  kernels_unavailable: unavailable,
  // Artifacts
  artifact_ambiguous: badRequest,
  artifact_in_use: conflict,
  artifact_corrupt: { status: 502, retryable: true, type: 'server_error' },
  artifact_invalid: badRequest,
  artifact_unreachable: unavailable,
  artifact_quota: { status: 507, retryable: false, type: 'server_error' },
  upload_not_found: notFound,
  upload_incomplete: conflict,
  // Model files
  model_file_not_found: notFound,
  model_file_unreadable: badRequest,
  model_file_empty: badRequest,
  model_not_gguf: badRequest,
  model_truncated: badRequest,
  model_invalid: badRequest,
  model_unsupported: badRequest,
  model_shard_missing: badRequest,
  model_name_taken: conflict,
  model_in_use: conflict,
  disk_full: { status: 507, retryable: false, type: 'server_error' },
  download_failed: { status: 502, retryable: true, type: 'server_error' },
  download_not_found: notFound,
  download_denied: forbidden,
  download_corrupt: { status: 502, retryable: true, type: 'server_error' },
  hub_unreachable: unavailable,
  // Placement
  placement_refused: { status: 422, retryable: false, type: 'invalid_request_error' },
  already_loaded: conflict,
  node_not_ready: unavailable,
  no_nodes: unavailable,
  // Serving
  not_ready: unavailable,
  node_draining: unavailable,
  node_gave_way: unavailable,
  engine_unreachable: { status: 502, retryable: true, type: 'server_error' },
  engine_lost: { status: 502, retryable: true, type: 'server_error' },
  stream_interrupted: { status: 502, retryable: true, type: 'server_error' },
  controller_unreachable: unavailable,
  // Engines
  engine_directory_missing: internal,
  engine_build_mismatch: conflict,
  engine_start_failed: internal,
  engine_load_failed: internal,
  engine_out_of_memory: internal,
  engine_crashed: { status: 502, retryable: true, type: 'server_error' },
  engine_stalled: { status: 504, retryable: true, type: 'server_error' },
  engine_timeout: { status: 504, retryable: true, type: 'server_error' },
  canary_failed: internal,
  stage_lost: { status: 502, retryable: true, type: 'server_error' },
  stage_unreachable: { status: 502, retryable: true, type: 'server_error' },
  node_lost: unavailable,
  worker_restarted: unavailable,
  lease_expired: unavailable,
  unloaded: conflict,
  // Joining and sessions
  join_string_invalid: badRequest,
  join_secret_invalid: forbidden,
  join_secret_used: forbidden,
  join_secret_expired: forbidden,
  join_denied: forbidden,
  join_blocked: forbidden,
  join_expired: { status: 410, retryable: false, type: 'invalid_request_error' },
  join_code_wrong: forbidden,
  join_code_mismatch: forbidden,
  join_request_not_found: notFound,
  join_not_running: conflict,
  cluster_secret_wrong: forbidden,
  cluster_secret_missing: conflict,
  controllers_ambiguous: conflict,
  controller_not_found: notFound,
  already_member: conflict,
  identity_in_use: conflict,
  dial_refused: forbidden,
  join_busy: { status: 429, retryable: true, type: 'rate_limit_error' },
  controller_key_mismatch: forbidden,
  not_a_member: forbidden,
  node_removed: forbidden,
  not_the_controller: forbidden,
  protocol_version_mismatch: conflict,
  grant_invalid: forbidden,
  grant_expired: forbidden,
  session_replaced: conflict,
  // The program itself
  data_directory_locked: conflict,
  data_directory_unusable: internal,
  port_in_use: conflict,
  backup_invalid: badRequest,
  passphrase_wrong: forbidden,
  passphrase_weak: badRequest,
  config_invalid: badRequest,
  timeout: { status: 504, retryable: true, type: 'server_error' },
  cancelled: { status: 499, retryable: false, type: 'invalid_request_error' },
  shutting_down: unavailable,
  internal_error: internal,
} as const satisfies Record<string, CatalogueEntry>;

export type ErrorCode = keyof typeof errorCatalogue;

/** What a refusal carries besides its sentence. `field` names the input at fault. */
export interface ErrorDetails {
  readonly field?: string;
  readonly reasons?: readonly ErrorReason[];
  readonly retryAfterS?: number;
}

/** One cause among several, as data, so that the UI and the CLI can show it as they like. */
export interface ErrorReason {
  readonly code: string;
  readonly message: string;
  readonly field?: string | undefined;
  readonly nodeId?: string | undefined;
  readonly neededBytes?: number | undefined;
  readonly availableBytes?: number | undefined;
}

/** The wire form, in `/api` bodies, session frames and host messages. */
export interface ErrorBody {
  readonly code: ErrorCode;
  readonly message: string;
  readonly field?: string | undefined;
  readonly reasons?: readonly ErrorReason[] | undefined;
  readonly retryAfterS?: number | undefined;
}

/** What the schema of an error body lets through, in UTF-16 units and items. */
export const errorLimits = { message: 4_096, reasonMessage: 2_048, field: 128, reasons: 64 } as const;

/**
 * The body as it may leave this process: errors quote what they refuse, and that may be as long as the message may.
 * The middle of a long sentence is left out, since its end is what says what is wrong.
 */
export function boundedErrorBody(body: ErrorBody): ErrorBody {
  const { message, field, reasons } = body;
  return {
    ...body,
    message: withoutMiddle(message, errorLimits.message),
    ...(field === undefined ? {} : { field: withoutMiddle(field, errorLimits.field) }),
    ...(reasons === undefined ? {} : { reasons: reasons.slice(0, errorLimits.reasons).map(boundedReason) }),
  };
}

function boundedReason(reason: ErrorReason): ErrorReason {
  return {
    ...reason,
    message: withoutMiddle(reason.message, errorLimits.reasonMessage),
    ...(reason.field === undefined ? {} : { field: withoutMiddle(reason.field, errorLimits.field) }),
  };
}

function withoutMiddle(text: string, limit: number): string {
  if (text.length <= limit) return text;
  const half = Math.floor((limit - 5) / 2);
  // Cut between two halves of a character each would be no character.
  const start = text.slice(0, half).replace(/[\ud800-\udbff]$/, '');
  const end = text.slice(-half).replace(/^[\udc00-\udfff]/, '');
  return `${start} ... ${end}`;
}

export class CoveyError extends Error {
  readonly code: ErrorCode;
  readonly details: ErrorDetails;

  constructor(code: ErrorCode, message: string, details: ErrorDetails = {}, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = 'CoveyError';
    this.code = code;
    this.details = details;
  }

  get status(): number {
    return errorCatalogue[this.code].status;
  }

  get retryable(): boolean {
    return errorCatalogue[this.code].retryable;
  }

  /** Bounded: as it may leave this process. */
  toBody(): ErrorBody {
    return boundedErrorBody({ code: this.code, message: this.message, ...this.details });
  }

  static fromBody(body: ErrorBody): CoveyError {
    const { code, message, ...details } = body;
    return new CoveyError(code, message, details as ErrorDetails);
  }

  /** Any thrown value as a CoveyError; what is not one already becomes `disk_full` or `internal_error`. */
  static from(thrown: unknown): CoveyError {
    if (thrown instanceof CoveyError) return thrown;
    const message = thrown instanceof Error ? thrown.message : String(thrown);
    if (isDiskFull(thrown)) return new CoveyError('disk_full', `The disk is full (${message}).`, {}, thrown);
    return new CoveyError('internal_error', message, {}, thrown);
  }
}

/** As the system says it, and SQLite; the last one when it makes the index of its log. */
const fullDiskCodes: ReadonlySet<unknown> = new Set([
  'ENOSPC',
  'EDQUOT',
  'SQLITE_FULL',
  'SQLITE_IOERR_SHMSIZE',
]);

/** Whether something was thrown because there is no room on a disk. */
export function isDiskFull(thrown: unknown): boolean {
  return thrown instanceof Error && 'code' in thrown && fullDiskCodes.has(thrown.code);
}

export function isErrorCode(code: string): code is ErrorCode {
  return Object.hasOwn(errorCatalogue, code);
}

/** OpenAI's error object for `/v1`, as its SDKs parse it. */
export function openAiError(error: CoveyError): {
  error: { message: string; type: string; param: string | null; code: string };
} {
  const { code, message, field } = error.toBody();
  return { error: { message, type: errorCatalogue[code].type, param: field ?? null, code } };
}
