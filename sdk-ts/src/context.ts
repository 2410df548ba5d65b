import { OncehostError } from './errors.ts'
import { span } from './patience.ts'

/** Where calls go, who makes them, and how patient they are. Made by {@link createContext}. */
export interface ContextOptions {
  /** Where the host is: `https://host.example`, with a path in front of its own where there is one. */
  baseUrl: string | URL
  /**
   * The credentials, or what gives them; asked on each try, so that one that ran out can be replaced. What it throws
   * ends the call, and its time counts as the try's.
   */
  token?: string | (() => string | null | undefined | Promise<string | null | undefined>) | undefined
  /** Headers of every request, such as `X-Tenant-Id` towards `oncehost dev`. */
  headers?: Readonly<Record<string, string>> | undefined
  /** Milliseconds for a call with all its tries; 60,000 when left out, and `Infinity` is allowed. */
  deadline?: number | undefined
  /** Milliseconds for one try before it counts as lost; 20,000 when left out. */
  tryTimeout?: number | undefined
  /** Milliseconds of the first pause between tries, doubled each time, up to the longest one: 200 and 10,000 when left out. */
  backoff?: { first?: number; longest?: number } | undefined
  /** Instead of the global `fetch`. */
  fetch?: ((url: string, init: RequestInit) => Promise<Response>) | undefined
}

/** What {@link createContext} gives. */
export interface Context {
  readonly baseUrl: string
  readonly deadline: number
  readonly tryTimeout: number
  readonly backoff: { readonly first: number; readonly longest: number }
  readonly fetch: (url: string, init: RequestInit) => Promise<Response>
  /** The headers of a request, with the credentials as they are now. */
  readonly headers: () => Promise<Record<string, string>>
}

/** What a header can carry (`fetch` cuts off ends of lines behind it); of other things `fetch` says no more than that the network failed, or quotes the secret. */
const VALUE = /^[\t\x20-\x7e\x80-\xff]*[\r\n]*$/

/** Says once where calls go and who makes them. Throws a `TypeError` for what no call could be made with. */
export function createContext(options: ContextOptions = {} as ContextOptions): Context {
  const { token, headers, backoff, deadline = 60_000, tryTimeout = 20_000 } = options
  // As `fetch` takes them: two of one name would be sent as a list.
  const own = Object.fromEntries(Object.entries(headers ?? {}).map(([name, value]) => {
    if (!/^[\w!#$%&'*+.^`|~-]+$/.test(name) || !VALUE.test(value)) throw new TypeError(`createContext: no request can carry the header "${name}"`)
    return [name.toLowerCase(), value]
  }))
  return {
    baseUrl: address(options.baseUrl),
    deadline: span('deadline', deadline),
    tryTimeout: span('tryTimeout', tryTimeout),
    backoff: { first: span('backoff.first', backoff?.first ?? 200), longest: span('backoff.longest', backoff?.longest ?? 10_000) },
    // Browsers want their own `fetch` called as a function of the window.
    fetch: options.fetch ?? ((url, init) => globalThis.fetch(url, init)),
    headers: async () => {
      const secret = typeof token === 'function' ? await token() : token
      if (secret && !VALUE.test(secret)) throw new OncehostError('UNAUTHENTICATED', '`token` gave what no header can carry')
      return { ...own, ...(secret ? { authorization: `Bearer ${secret}` } : {}) }
    },
  }
}

/** An address as calls begin with it, without a slash at its end. */
function address(given: string | URL): string {
  let url = ''
  try {
    url = new URL(given).href
  } catch {}
  // Not quoted: it may hold a password.
  if (!/^https?:\/\/[^/?#@]+\/[^?#]*$/.test(url)) {
    throw new TypeError('createContext needs a baseUrl such as https://host.example, with no user, `?` or `#`')
  }
  return url.replace(/\/+$/, '')
}
