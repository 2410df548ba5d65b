import { OncehostError } from './errors.ts'

/**
 * An input as JSON. Throws `VALIDATION` for what JSON would lose without a word (a `Map`, a `Promise`, a function,
 * bytes, NaN, a date that is none, a hole in an array) or cannot say (a BigInt, what holds itself). Members that are
 * `undefined` are left out.
 */
export function bodyOf(input: unknown): string {
  try {
    return JSON.stringify(input === undefined ? {} : input, function (this: Record<string, unknown>, name, value: unknown) {
      const way = instead(value, this[name], Array.isArray(this))
      if (way) throw new OncehostError('VALIDATION', `the input${name && ` at "${name}"`} is nothing that JSON carries: send ${way}`)
      return value
    })
  } catch (cause) {
    throw cause instanceof OncehostError ? cause : new OncehostError('VALIDATION', 'the input is nothing that JSON carries: it holds itself, or throws', { cause })
  }
}

/** What to send instead of a value, which `toJSON` has made of the one that was given. */
function instead(value: unknown, given: unknown, listed: boolean): string | undefined {
  const kind = Object.prototype.toString.call(value).slice(8, -1)
  if (value === null ? given instanceof Date : kind === 'Number' && !isFinite(value as number)) return `null or a string for ${given}`
  if (listed && value === undefined) return 'null'
  if (/^(Undefined|Null|Object|Array|String|Number|Boolean)$/.test(kind)) return undefined
  return `what the ${kind} holds as a string${/Array|View/.test(kind) ? ' in base64' : ', an array or an object'}`
}

/** The same text for values that differ in the order of their members only. */
export function canonical(value: unknown): string {
  return JSON.stringify(value, (_, it: unknown) =>
    it !== null && typeof it === 'object' && !Array.isArray(it) ? Object.fromEntries(Object.entries(it).sort(([a], [b]) => (a < b ? -1 : 1))) : it)
}
