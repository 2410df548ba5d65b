/**
 * The names of the host's errors; what each means and what to do about it stands in the host's list of errors. A
 * plugin's own refusals (`BizError`) have names of their own.
 */
export type ErrorCode =
  | 'VALIDATION' | 'KEY_REQUIRED' | 'KEY_INVALID' | 'UNAUTHENTICATED' | 'FORBIDDEN' | 'NOT_FOUND' | 'METHOD'
  | 'MEDIA_TYPE' | 'KEY_IN_PROGRESS' | 'DUPLICATE' | 'CONSTRAINT' | 'KEY_EXPIRED' | 'TOO_LARGE' | 'KEY_REUSED'
  | 'RATE_LIMITED' | 'CONTRACT' | 'SCRIPT' | 'LIMIT' | 'SCHEMA' | 'OVERLOADED' | 'UNAVAILABLE'

/** What is wrong with one field of the input: a JSON Pointer, and a sentence. */
export interface FieldFault {
  readonly pointer: string
  readonly message: string
}

/** The facts of an {@link OncehostError}. */
export interface ErrorFacts {
  status?: number | undefined
  number?: number | undefined
  retryable?: boolean | undefined
  requestId?: string | undefined
  fields?: readonly FieldFault[] | undefined
  details?: unknown
  cause?: unknown
}

/**
 * A call that did not succeed, after all tries that were allowed.
 *
 * ```ts
 * catch (error) {
 *   if (error instanceof OncehostError && error.code === 'REGION_CLOSED') …
 * }
 * ```
 */
export class OncehostError extends Error {
  override readonly name = 'OncehostError'
  /** Compare with this: a name of the host's table, or the one that a handler gave its `BizError`. */
  readonly code: ErrorCode | (string & {})
  /** The HTTP status; 0 where no whole answer came. */
  readonly status: number
  /** The number of the host's table; 1000 for a plugin's own refusal, 0 where the host did not say. */
  readonly number: number
  /**
   * Whether the very same call, under the same key, may succeed later. A call that ended with this may have had its
   * effect: only another try under the same key finds out. So it is `false` where a write without a key may be done.
   */
  readonly retryable: boolean
  /** By this the host's log knows the call. */
  readonly requestId: string | undefined
  /** Single fields of the input that are wrong. */
  readonly fields: readonly FieldFault[]
  /** What a plugin's refusal carries for programs; `undefined` where there is nothing. */
  readonly details: unknown

  constructor(code: string, message: string, facts: ErrorFacts = {}) {
    super(message, facts.cause === undefined ? undefined : { cause: facts.cause })
    this.code = code
    this.status = facts.status ?? 0
    this.number = facts.number ?? 0
    this.retryable = facts.retryable ?? false
    this.requestId = facts.requestId
    this.fields = facts.fields ?? []
    this.details = facts.details
  }
}

/** No whole answer came, or one that is not the host's: whether the work was done is not known. */
export function unavailable(message: string, facts: ErrorFacts = {}): OncehostError {
  return new OncehostError('UNAVAILABLE', message, { ...facts, retryable: true })
}

/** What is wrong with an answer that is not the host's, and has no status that would say so. */
export function strange(response: Response): string {
  const type = response.headers.get('content-type')
  return `the answer is not the host's, or was cut off${type ? ` (${type})` : ''}; is baseUrl the host's?`
}

/** The error that a refusing response stands for. */
export function refusal(response: Response, text: string): OncehostError {
  const { status } = response
  const requestId = response.headers.get('x-request-id') ?? undefined
  const body = asObject(text)
  // Others say `error`, too; the number is the host's.
  if (typeof body?.['error'] === 'string' && typeof body['code'] === 'number') {
    return new OncehostError(body['error'], String(body['detail'] ?? body['title']), {
      status,
      requestId,
      number: body['code'],
      retryable: body['retryable'] === true,
      fields: body['fields'] as readonly FieldFault[],
      details: body['details'],
    })
  }
  // Something between us and the host has answered.
  const message = `status ${status}, not of the host`
  if ([429, 502, 503, 504].includes(status)) return unavailable(message, { status, requestId })
  const names: Record<number, string> = { 401: 'UNAUTHENTICATED', 403: 'FORBIDDEN', 404: 'NOT_FOUND', 413: 'TOO_LARGE' }
  return new OncehostError(names[status] ?? 'UNAVAILABLE', message, { status, requestId })
}

/** The members of a JSON object; `undefined` where the text is something else. */
export function asObject(text: string): Record<string, unknown> | undefined {
  const value = parsed(text)
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined
}

/** The value of a JSON text; the text itself where it is none. */
export function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}
