import { OncehostError } from './errors.ts'

/**
 * An input as JSON. Throws `VALIDATION` for what JSON would lose without a word (a `Map`, bytes, NaN) or cannot say
 * (a BigInt).
 */
export function bodyOf(input: unknown): string {
  return JSON.stringify(input === undefined ? {} : input, (name, value: unknown) => {
    const way = instead(value)
    if (way) throw new OncehostError('VALIDATION', `the input${name && ` at "${name}"`} is nothing that JSON carries: send ${way}`)
    return value
  })
}

function instead(value: unknown): string | undefined {
  if (typeof value === 'bigint') return 'a BigInt as a string'
  if (typeof value === 'number' && !Number.isFinite(value)) return `null or a string for ${value}`
  if (value instanceof Map || value instanceof Set) return 'a Map or Set as an object or an array'
  return ArrayBuffer.isView(value) || value instanceof ArrayBuffer ? 'bytes as a string, in base64' : undefined
}

/** The same text for values that differ in the order of their members only. */
export function canonical(value: unknown): string {
  return JSON.stringify(value, (_, it: unknown) =>
    it !== null && typeof it === 'object' && !Array.isArray(it) ? Object.fromEntries(Object.entries(it).sort(([a], [b]) => (a < b ? -1 : 1))) : it)
}
