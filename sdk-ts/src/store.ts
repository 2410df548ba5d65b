import { bodyOf, canonical } from './body.ts'
import { call } from './call.ts'
import type { Context } from './context.ts'
import { OncehostError } from './errors.ts'
import { limited, span } from './patience.ts'
import type { ActionName, Input, InvokeOptions, Output, PluginName } from './index.ts'

/** What keys are kept in: `localStorage`, `sessionStorage`, or anything of that form. */
export interface KeyStorage {
  readonly length: number
  key(index: number): string | null
  getItem(name: string): string | null
  setItem(name: string, value: string): void
  removeItem(name: string): void
}

/** A call that was begun and has no answer yet. */
export interface Intent {
  readonly key: string
  readonly plugin: string
  readonly action: string
  readonly input: unknown
  /** When it was begun, in milliseconds since 1970. */
  readonly begun: number
}

/** Options of {@link keyStore}. */
export interface KeyStoreOptions {
  /**
   * Whose intents these are, such as the id of who is signed in: nobody then goes on with what another began in the
   * same browser.
   */
  scope?: string | undefined
  /**
   * Milliseconds after which an unfinished intent is let go; 7 days when left out. Must be less than the host keeps
   * its marks (90 days), or an old intent could be done twice.
   */
  keepFor?: number | undefined
}

/** Keeps the keys of unfinished intents, so that a page that was reloaded goes on with the same ones. */
export interface KeyStore {
  /**
   * Calls a write action under a key that is noted, with the input, before the first try, and forgotten when there is
   * an answer. Each call is an intent of its own: no other call, in no tab, gets its key. Without `idempotencyKey`
   * the key is random.
   */
  invoke<P extends PluginName, A extends ActionName<P>>(
    ctx: Context,
    plugin: P,
    action: A,
    input: Input<P, A>,
    options?: Omit<InvokeOptions, 'read'>,
  ): Promise<Output<P, A>>
  /** What was begun, here or in another tab, and has no answer yet; the oldest first. */
  unfinished(): Intent[]
  /**
   * Goes on with an intent under its own key and input; gives the data. Where another tab is at it, this waits for
   * that one first, and then gets the recorded reply.
   */
  resume(ctx: Context, intent: Intent, options?: Omit<InvokeOptions, 'read' | 'idempotencyKey'>): Promise<unknown>
  /** Lets go of an intent without an answer. */
  forget(intent: Pick<Intent, 'key'>): void
}

const WEEK = 7 * 24 * 3600 * 1000

/** A {@link KeyStore} in a storage of the browser's, or one of that form. */
export function keyStore(storage: KeyStorage, { scope = '', keepFor = WEEK }: KeyStoreOptions = {}): KeyStore {
  if (!storage) throw new TypeError('keyStore needs a storage such as localStorage')
  // What is compared with no number would let all intents go.
  span('keepFor', keepFor)
  const prefix = `oncehost:${encodeURIComponent(scope)}:`
  const forget = ({ key }: Pick<Intent, 'key'>) => storage.removeItem(prefix + key)

  /** Makes the call, and lets go of the intent once its outcome is known. */
  const settle = async <T>(ctx: Context, intent: Intent, options?: InvokeOptions): Promise<T> => {
    const { key, plugin, action, input } = intent
    try {
      const { data } = await call<T>(ctx, { ...options, plugin, action, input, idempotencyKey: key, read: undefined })
      forget(intent)
      return data
    } catch (error) {
      // Signing in again, or a mended handler, may be all it takes; what the host refuses for good it always will.
      if (error instanceof OncehostError && final(error)) forget(intent)
      throw error
    }
  }

  /**
   * The same while no other tab is at this intent, which is waited for no longer than for the call. Where there are no
   * locks two tabs may be at it: the host then lets one of them do it, and gives the other its reply.
   */
  const alone = <T>(ctx: Context, intent: Intent, options?: InvokeOptions): Promise<T> => {
    const work = () => settle<T>(ctx, intent, options)
    const locks = (globalThis.navigator as { locks?: Locks } | undefined)?.locks
    if (!locks) return work()
    const { signal, end } = limited(options?.signal, options?.deadline ?? ctx.deadline)
    return locks.request(prefix + intent.key, { signal }, () => (end(), work())).finally(end)
  }

  /** Notes an intent, unless it is noted already. */
  const keep = (intent: Intent) => {
    const there = read(storage.getItem(prefix + intent.key))
    const facts = ({ plugin, action, input }: Intent) => canonical([plugin, action, input])
    if (there === undefined) storage.setItem(prefix + intent.key, JSON.stringify(intent))
    else if (facts(there) !== facts(intent)) {
      throw new OncehostError('KEY_REUSED', 'another unfinished intent has this key: resume or forget it')
    }
  }

  return {
    forget,
    async invoke(ctx, plugin, action, input, options) {
      // Before it is noted: the same mended call would be an intent beside it.
      span('deadline', options?.deadline ?? 0)
      const key = options?.idempotencyKey ?? randomKey()
      const intent = { key, plugin, action, input: JSON.parse(bodyOf(input)) as unknown, begun: Date.now() }
      keep(intent)
      return alone(ctx, intent, options)
    },
    unfinished() {
      const intents: Intent[] = []
      const names = Array.from({ length: storage.length }, (_, index) => storage.key(index))
      for (const name of names) {
        if (!name?.startsWith(prefix)) continue
        const intent = read(storage.getItem(name))
        if (intent && Date.now() - intent.begun <= keepFor) intents.push(intent)
        else storage.removeItem(name)
      }
      return intents.sort((a, b) => a.begun - b.begun)
    },
    resume: alone,
  }
}

function final(error: OncehostError): boolean {
  // What only something in between has answered, the host never saw.
  if (error.status > 0 && error.number === 0) return false
  return !error.retryable && !(error.status >= 500) && error.code !== 'UNAUTHENTICATED' && error.code !== 'FORBIDDEN'
}

function read(text: string | null): Intent | undefined {
  try {
    const intent = JSON.parse(text ?? '') as Intent
    return typeof intent.key === 'string' && typeof intent.begun === 'number' ? intent : undefined
  } catch {
    return undefined
  }
}

/** Also on pages without TLS, where `crypto.randomUUID` is not there. */
function randomKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), byte => byte.toString(16).padStart(2, '0')).join('')
}

interface Locks {
  request<T>(name: string, options: { signal: AbortSignal }, work: () => Promise<T>): Promise<T>
}
