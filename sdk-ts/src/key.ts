import { OncehostError } from './errors.ts'

/** The most bytes of UTF-8 that a key may have. */
const LIMIT = 255

function invalid(why: string): OncehostError {
  return new OncehostError('KEY_INVALID', `the idempotency key cannot be used: ${why}`)
}

/**
 * A key as the header `Idempotency-Key` carries it: a String where it is ASCII, otherwise a Display String (RFC 9651),
 * since a header holds nothing else safely. The same text is the same key in both forms.
 *
 * Throws `KEY_INVALID` for what the host would refuse.
 */
export function keyHeader(key: string): string {
  // A lone surrogate matches here, a pair does not.
  if (typeof key !== 'string' || /[\ud800-\udfff]/u.test(key)) throw invalid('it is no well-formed text')
  const bytes = new TextEncoder().encode(key)
  if (bytes.length === 0) throw invalid('it is empty')
  if (bytes.length > LIMIT) throw invalid(`it has ${bytes.length} bytes of UTF-8, the most is ${LIMIT}`)
  if (/[\0-\x1f\x7f-\x9f]/.test(key)) throw invalid('it holds control characters')
  if (bytes.length === key.length) return `"${key.replace(/["\\]/g, '\\$&')}"`
  let text = ''
  for (const byte of bytes) {
    const plain = byte >= 0x20 && byte < 0x7f && byte !== 0x22 && byte !== 0x25
    text += plain ? String.fromCharCode(byte) : `%${byte.toString(16).padStart(2, '0')}`
  }
  return `%"${text}"`
}
