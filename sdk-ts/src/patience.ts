import type { Context } from './context.ts'
import { unavailable } from './errors.ts'

/** The reason of a signal, as `fetch` would throw it. */
export function reasonOf(signal: AbortSignal): unknown {
  return signal.reason ?? new DOMException('The call was aborted.', 'AbortError')
}

/** A time in milliseconds that somebody gave; anything else would go on in silence, in sums and timers. */
export function span(name: string, given: number): number {
  if (typeof given === 'number' && given >= 0) return given
  throw new TypeError(`${name} must be a number of milliseconds`)
}

/**
 * Milliseconds to wait after a number of failed tries: twice as long each time with jitter, so that callers who failed
 * together do not come back together; never less than what the host asks for.
 */
export function delay({ backoff }: Context, tried: number, retryAfter: string | null | undefined): number {
  const grown = Math.min(backoff.longest, backoff.first * 2 ** (tried - 1))
  const jittered = grown * (0.5 + Math.random() / 2)
  return asked(retryAfter) + jittered
}

/** `Retry-After` in milliseconds: seconds, or a date. */
function asked(retryAfter: string | null | undefined): number {
  if (!retryAfter) return 0
  const seconds = Number(retryAfter)
  const milliseconds = Number.isNaN(seconds) ? Date.parse(retryAfter) - Date.now() : seconds * 1000
  return Math.max(0, milliseconds || 0)
}

/** Waits; a page that is online again goes on at once, and an aborted `signal` throws its reason. */
export function pause(milliseconds: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const done = (settle: () => void) => () => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', aborted)
      globalThis.removeEventListener?.('online', awake)
      settle()
    }
    const awake = done(resolve)
    const aborted = done(() => reject(reasonOf(signal as AbortSignal)))
    const timer = setTimeout(awake, milliseconds)
    globalThis.addEventListener?.('online', awake)
    if (signal?.aborted) aborted()
    else signal?.addEventListener('abort', aborted)
  })
}

/** What a promise gives, unless the signal fires before. */
export function heeding<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const stop = () => reject(reasonOf(signal))
    if (signal.aborted) stop()
    else signal.addEventListener('abort', stop)
    work.then(resolve, reject)
  })
}

/** A signal that follows another one and also fires after a time; `end` lets go of both. */
export function limited(signal: AbortSignal | undefined, milliseconds: number): { signal: AbortSignal; restart: () => void; end: () => void } {
  const both = new AbortController()
  const follow = () => both.abort(signal && reasonOf(signal))
  let timer: ReturnType<typeof setTimeout> | undefined
  const restart = () => {
    clearTimeout(timer)
    // A longer time than this would fire at once.
    if (milliseconds < 2 ** 31) timer = setTimeout(() => both.abort(unavailable('no answer came')), milliseconds)
  }
  restart()
  if (signal?.aborted) follow()
  else signal?.addEventListener('abort', follow)
  return {
    signal: both.signal,
    restart,
    end: () => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', follow)
    },
  }
}
