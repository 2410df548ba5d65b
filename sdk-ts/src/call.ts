import { bodyOf } from './body.ts'
import type { Context } from './context.ts'
import { asObject, OncehostError, refusal, strange, unavailable } from './errors.ts'
import { keyHeader } from './key.ts'
import { delay, heeding, limited, pause, reasonOf, span } from './patience.ts'

/** One call, whatever its types. */
export interface Call {
  plugin: string
  action: string
  input: unknown
  idempotencyKey?: string | undefined
  read?: boolean | undefined
  deadline?: number | undefined
  signal?: AbortSignal | undefined
}

/** What {@link invokeRaw} gives. */
export interface Reply<T> {
  /** What the handler gave. */
  readonly data: T
  /** The host had done this before, and gave the reply that it had recorded. */
  readonly replayed: boolean
  /** Until when the host keeps the reply under the key. */
  readonly expires: Date | undefined
  /** By this the host's log knows the call. */
  readonly requestId: string | undefined
  /** How many requests it took. */
  readonly tries: number
}

/** Does a call, with as many tries as it takes and may take. Key and body are made once, before the first. */
export async function call<T>(ctx: Context, given: Call): Promise<Reply<T>> {
  const { plugin, action, input, idempotencyKey, signal } = given
  const url = `${ctx.baseUrl}/plugins/${encodeURIComponent(plugin)}/invoke/${encodeURIComponent(action)}`
  const own: Record<string, string> = { 'content-type': 'application/json' }
  if (idempotencyKey !== undefined) own['idempotency-key'] = keyHeader(idempotencyKey)
  const body = bodyOf(input)
  const patient = idempotencyKey !== undefined || given.read === true
  const end = Date.now() + span('deadline', given.deadline ?? ctx.deadline)
  for (let tries = 1; ; tries += 1) {
    if (signal?.aborted) throw reasonOf(signal)
    const tried = await attempt<T>(ctx, url, own, body, end, signal)
    if ('reply' in tried) return { ...tried.reply, tries }
    // Nobody may find out by doing it again.
    const { error } = tried
    if (!patient && error.code === 'UNAVAILABLE') (error as { retryable: boolean }).retryable = false
    const wait = delay(ctx, tries, tried.retryAfter)
    if (!patient || !error.retryable || Date.now() + wait >= end) throw error
    await pause(wait, signal)
  }
}

type Tried<T> =
  | { reply: Omit<Reply<T>, 'tries'> }
  | { error: OncehostError; retryAfter?: string | null }

/** One request. Throws only the caller's own: the wish to stop, and what `token` throws. */
async function attempt<T>(
  ctx: Context,
  url: string,
  own: Record<string, string>,
  body: string,
  end: number,
  signal: AbortSignal | undefined,
): Promise<Tried<T>> {
  const limit = limited(signal, Math.min(ctx.tryTimeout, Math.max(0, end - Date.now())))
  let asked = false
  try {
    const headers = { ...(await heeding(ctx.headers(), limit.signal)), ...own }
    asked = true
    const response = await ctx.fetch(url, { method: 'POST', headers, body, signal: limit.signal })
    const text = await response.text()
    if (!response.ok) return { error: refusal(response, text), retryAfter: response.headers.get('retry-after') }
    const answer = asObject(text)
    const requestId = response.headers.get('x-request-id') ?? undefined
    if (answer?.['code'] !== 0 || !('data' in answer)) {
      return { error: unavailable(strange(response), { status: response.status, requestId }) }
    }
    const expires = response.headers.get('idempotency-expires')
    return {
      reply: {
        data: answer['data'] as T,
        replayed: response.headers.get('idempotent-replayed') === 'true',
        expires: expires ? new Date(expires) : undefined,
        requestId,
      },
    }
  } catch (cause) {
    if (signal?.aborted) throw reasonOf(signal)
    if (!asked && !limit.signal.aborted) throw cause
    const message = asked
      ? 'no answer came; another try under the same key tells whether it was done'
      : '`token` gave nothing in time'
    return { error: unavailable(message, { cause }) }
  } finally {
    limit.end()
  }
}
