import type { Context } from './context.ts'
import { asObject, OncehostError, parsed, refusal, strange, unavailable } from './errors.ts'
import type { TopicName } from './index.ts'
import { delay, heeding, limited, pause, span } from './patience.ts'

/** A message that a plugin published. */
export interface Notification<T = unknown> {
  /** Its place in the stream: the `lastEventId` to go on behind it. */
  readonly id: string
  /** The event's own id: the same wherever it is delivered. */
  readonly eventId: string
  readonly topic: string
  /** What it is about, where the plugin said so. */
  readonly subject?: string | null
  readonly payload: T
  /** ISO 8601. */
  readonly publishedAt: string
}

/** The host no longer has what came after the place that was asked for: read the state anew. */
export interface Resync {
  /** The place from which the stream goes on, where the host says it. */
  readonly id: string | undefined
  readonly data: unknown
}

/** Options of {@link subscribe}. */
export interface SubscribeOptions<T = unknown> {
  /**
   * Gets each event once and in order. A promise is awaited before the next event, and the place in the stream moves
   * on only after it; what it throws ends the subscription.
   */
  onEvent: (event: Notification<T>) => unknown
  /** Events are missing that the host no longer has. Awaited as `onEvent` is. */
  onResync?: ((resync: Resync) => unknown) | undefined
  /** The connection stands again, or for the first time. */
  onOpen?: (() => void) | undefined
  /** Why the connection was lost; it is made again. */
  onError?: ((error: unknown) => void) | undefined
  /** Goes on behind this message; left out, from now on. */
  lastEventId?: string | undefined
  /** Ends the subscription. */
  signal?: AbortSignal | undefined
  /** Milliseconds without a sign of life (an event or a comment) before the connection counts as lost; 60,000 when left out. */
  idleTimeout?: number | undefined
}

/** What {@link subscribe} gives. */
export interface Subscription {
  /** The last event that was handled. */
  readonly lastEventId: string | undefined
  /** Ends it. */
  close(): void
  /** Settles when it has ended: rejects when the host refuses it for good, or `onEvent` threw. */
  readonly closed: Promise<void>
}

/**
 * Listens to topics. Lost connections are made again behind the last event that was handled, so there is no gap and no
 * double. The credentials go in a header, where no log of addresses has them. Throws a `TypeError` for what nobody could
 * listen with.
 */
export function subscribe<T = unknown>(ctx: Context, topics: readonly TopicName[], options: SubscribeOptions<T>): Subscription {
  const state = { lastEventId: options.lastEventId, tries: 0, idle: span('idleTimeout', options.idleTimeout ?? 60_000) }
  if (!Array.isArray(topics) || typeof options.onEvent !== 'function') throw new TypeError('topics must be an array, onEvent a function')
  const stop = new AbortController()
  const stopped = () => stop.abort(options.signal?.reason)
  if (options.signal?.aborted) stopped()
  else options.signal?.addEventListener('abort', stopped)
  const closed = follow(ctx, topics, options as SubscribeOptions, state, stop.signal).finally(() => {
    options.signal?.removeEventListener('abort', stopped)
  })
  // Whoever does not look at `closed` has `onError` to know by.
  closed.catch(() => {})
  return {
    get lastEventId() {
      return state.lastEventId
    },
    close: () => stop.abort(),
    closed,
  }
}

interface State {
  lastEventId: string | undefined
  /** Connections that failed since the last event. */
  tries: number
  /** Milliseconds without a sign of life before a connection counts as lost. */
  idle: number
}

/** What a handler of the caller's threw, kept apart from what the network does. */
class Thrown {
  readonly error: unknown
  constructor(error: unknown) {
    this.error = error
  }
}

async function follow(ctx: Context, topics: readonly string[], options: SubscribeOptions, state: State, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    let wait: number | undefined
    try {
      wait = await listen(ctx, topics, options, state, signal)
    } catch (error) {
      if (signal.aborted) return
      if (error instanceof Thrown) throw error.error
      if (error instanceof OncehostError && !error.retryable) throw error
      options.onError?.(error)
    }
    if (signal.aborted) return
    state.tries += 1
    await pause(wait ?? delay(ctx, state.tries, undefined), signal).catch(() => {})
  }
}

/** One connection, to its end. Gives how long to wait before the next one, where the host says that. */
async function listen(ctx: Context, topics: readonly string[], options: SubscribeOptions, state: State, signal: AbortSignal): Promise<number | undefined> {
  const limit = limited(signal, state.idle)
  try {
    const headers: Record<string, string> = { accept: 'text/event-stream', ...(await heeding(ctx.headers(), limit.signal)) }
    // A storage that has none gives null.
    if (state.lastEventId != null) headers['last-event-id'] = state.lastEventId
    const url = `${ctx.baseUrl}/notifications?topics=${topics.map(encodeURIComponent).join(',')}`
    const response = await ctx.fetch(url, { headers, signal: limit.signal, cache: 'no-store' })
    if (!response.ok || !response.body) {
      const error = refusal(response, await response.text())
      if (!error.retryable) throw new Thrown(error)
      options.onError?.(error)
      return delay(ctx, state.tries + 1, response.headers.get('retry-after'))
    }
    if (!response.headers.get('content-type')?.startsWith('text/event-stream')) {
      void response.body.cancel().catch(() => {})
      throw unavailable(strange(response), { status: response.status })
    }
    options.onOpen?.()
    for await (const message of messages(response.body, limit.restart)) {
      await handle(message, options, state)
    }
    return undefined
  } finally {
    limit.end()
  }
}

async function handle({ id, event, data }: Message, options: SubscribeOptions, state: State): Promise<void> {
  try {
    if (event === 'resync') await options.onResync?.({ id, data: parsed(data ?? '') })
    // A block without data only tells the place: also who loses the connection before the first message misses none.
    else if (data !== undefined && (id === undefined || id !== state.lastEventId)) {
      await options.onEvent({ ...asObject(data), id: id ?? '' } as Notification)
    }
    state.lastEventId = id ?? state.lastEventId
    if (data !== undefined) state.tries = 0
  } catch (error) {
    throw new Thrown(error)
  }
}

interface Message {
  id: string | undefined
  event: string
  data: string | undefined
}

/** The messages of a stream of Server-Sent Events; `alive` is called for whatever comes. */
async function* messages(body: ReadableStream<Uint8Array>, alive: () => void): AsyncGenerator<Message> {
  const reader = body.getReader()
  const decoder = new TextDecoder()
  let rest = ''
  let message: { id: string | undefined; event: string; data: string[] } = { id: undefined, event: '', data: [] }
  try {
    for (;;) {
      const { done, value } = await reader.read()
      // A message that was cut off is not one.
      if (done) return
      alive()
      rest += decoder.decode(value, { stream: true })
      // A `\r` at the end may be half of `\r\n`.
      const lines = rest.split(/\r\n|\n|\r(?!$)/)
      rest = lines.pop() ?? ''
      for (const line of lines) {
        if (line === '') {
          const { id, event, data } = message
          message = { id: undefined, event: '', data: [] }
          yield { id, event, data: data.length > 0 ? data.join('\n') : undefined }
          continue
        }
        const [, name, text = ''] = /^([^:]*)(?:: ?(.*))?$/s.exec(line) ?? []
        if (name === 'id' && !text.includes('\0')) message.id = text
        else if (name === 'event') message.event = text
        else if (name === 'data') message.data.push(text)
      }
    }
  } finally {
    void reader.cancel().catch(() => {})
  }
}
