// What handlers and scripts have of the web's globals, as in browsers and Node.js. `plugin.d.ts` brings them in.

interface URL {
  hash: string
  host: string
  hostname: string
  href: string
  readonly origin: string
  password: string
  pathname: string
  port: string
  protocol: string
  search: string
  readonly searchParams: URLSearchParams
  username: string
  toJSON(): string
  toString(): string
}
declare var URL: {
  prototype: URL
  new (url: string | URL, base?: string | URL): URL
  canParse(url: string | URL, base?: string | URL): boolean
  parse(url: string | URL, base?: string | URL): URL | null
}

interface URLSearchParams {
  readonly size: number
  append(name: string, value: string): void
  delete(name: string, value?: string): void
  get(name: string): string | null
  getAll(name: string): string[]
  has(name: string, value?: string): boolean
  set(name: string, value: string): void
  sort(): void
  forEach(callback: (value: string, key: string, parent: URLSearchParams) => void, thisArg?: unknown): void
  entries(): IterableIterator<[string, string]>
  keys(): IterableIterator<string>
  values(): IterableIterator<string>
  toString(): string
  [Symbol.iterator](): IterableIterator<[string, string]>
}
declare var URLSearchParams: {
  prototype: URLSearchParams
  new (init?: Iterable<readonly [string, string]> | Readonly<Record<string, string>> | string | URLSearchParams): URLSearchParams
}

interface TextEncoder {
  readonly encoding: string
  encode(text?: string): Uint8Array
  encodeInto(text: string, into: Uint8Array): { read: number; written: number }
}
declare var TextEncoder: { prototype: TextEncoder; new (): TextEncoder }

interface TextDecoder {
  readonly encoding: string
  readonly fatal: boolean
  readonly ignoreBOM: boolean
  decode(bytes?: ArrayBuffer | ArrayBufferView, options?: { stream?: boolean }): string
}
declare var TextDecoder: {
  prototype: TextDecoder
  new (label?: string, options?: { fatal?: boolean; ignoreBOM?: boolean }): TextDecoder
}

/** The part of the web's `crypto` that is there. */
interface Crypto {
  readonly subtle: {
    digest(
      algorithm: 'SHA-1' | 'SHA-256' | 'SHA-384' | 'SHA-512' | { name: 'SHA-1' | 'SHA-256' | 'SHA-384' | 'SHA-512' },
      data: ArrayBuffer | ArrayBufferView,
    ): Promise<ArrayBuffer>
  }
  /** Seeded from the key, as `Math.random` is: a rerun of a key gets the same. */
  getRandomValues<T extends ArrayBufferView>(array: T): T
  randomUUID(): `${string}-${string}-${string}-${string}-${string}`
}
declare var crypto: Crypto

declare function structuredClone<T>(value: T, options?: { transfer?: readonly unknown[] }): T
declare function atob(text: string): string
declare function btoa(text: string): string
declare function queueMicrotask(callback: () => void): void
