import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createContext, invoke, invokeRaw, OncehostError } from '../../dist/index.js'
import { delay } from '../../dist/patience.js'
import { answer, cut, fakeFetch, gateway, HASTE, lost, problem, silence } from '../support/fake.mjs'

const KEYED = { idempotencyKey: 'order-17' }

function calling(...answers) {
  const { fetch, asked } = fakeFetch(...answers)
  const ctx = createContext({ baseUrl: 'http://host.test/', fetch, backoff: HASTE, token: 'secret', deadline: 2000 })
  return { ctx, asked, go: (options, input = { a: 1 }) => invoke(ctx, 'orders', 'orders.pay', input, options) }
}

test('a call is one request with key, credentials and body', async () => {
  const { asked, go } = calling(answer({ paid: true }))
  assert.deepEqual(await go(KEYED), { paid: true })
  assert.equal(asked.length, 1)
  assert.equal(asked[0].url, 'http://host.test/plugins/orders/invoke/orders.pay')
  assert.deepEqual([asked[0].method, asked[0].body], ['POST', '{"a":1}'])
  assert.deepEqual(asked[0].headers, { authorization: 'Bearer secret', 'content-type': 'application/json', 'idempotency-key': '"order-17"' })
})

for (const [name, mishap] of Object.entries({
  'no answer': lost,
  'a reply that was cut off': cut,
  'KEY_IN_PROGRESS': problem(409, 'KEY_IN_PROGRESS', true),
  'RATE_LIMITED': problem(429, 'RATE_LIMITED', true),
  'OVERLOADED': problem(503, 'OVERLOADED', true),
  'a gateway\'s 502': gateway(502),
  'a gateway\'s 502 in JSON': () => new Response('{"error":"Bad Gateway"}', { status: 502 }),
  'a gateway\'s 503': gateway(503),
  'a gateway\'s 504': gateway(504),
  'a gateway\'s 429': gateway(429),
})) {
  test(`${name} is tried again under the same key`, async () => {
    const { asked, go } = calling(mishap, mishap, answer(7))
    assert.equal(await go(KEYED), 7)
    assert.deepEqual(asked.map(({ key, body }) => [key, body]), Array(3).fill(['"order-17"', '{"a":1}']))
  })

  test(`${name} of a read is tried again without a key`, async () => {
    const { asked, go } = calling(mishap, answer(7))
    assert.equal(await go({ read: true }), 7)
    assert.deepEqual(asked.map(({ key }) => key), [undefined, undefined])
  })

  test(`${name} of a write without a key is not tried again`, async () => {
    const { asked, go } = calling(mishap)
    // Where it may be done, whoever heeds `retryable` must not do it twice.
    const mayBeDone = error => error.code === 'UNAVAILABLE'
    await assert.rejects(go(), error => error instanceof OncehostError && error.retryable === !mayBeDone(error))
    assert.equal(asked.length, 1)
  })
}

for (const [status, error] of [[400, 'VALIDATION'], [409, 'DUPLICATE'], [410, 'KEY_EXPIRED'], [422, 'KEY_REUSED'], [500, 'SCRIPT'], [429, 'TOO_MANY_LINES'], [503, 'NO']]) {
  test(`${status} ${error}, which the host calls final, is not tried again`, async () => {
    const { asked, go } = calling(problem(status, error, false))
    await assert.rejects(go(KEYED), { name: 'OncehostError', code: error, status, retryable: false })
    assert.equal(asked.length, 1)
  })
}

test('an error says what the host said', async () => {
  const fields = [{ pointer: '/a', message: 'is no text' }]
  const { go } = calling(problem(400, 'VALIDATION', false, { 'x-request-id': 'r-1' }, { code: 4000, fields, details: { x: 1 } }))
  const error = await go(KEYED).catch(error => error)
  assert.ok(error instanceof OncehostError && error instanceof Error)
  const { code, number, status, message, requestId, details } = error
  assert.deepEqual({ code, number, status, message, requestId, details, fields: error.fields }, {
    code: 'VALIDATION', number: 4000, status: 400, message: 'VALIDATION it is', requestId: 'r-1', details: { x: 1 }, fields,
  })
})

test('an error of another API is none of the host\'s', async () => {
  const { go } = calling(() => new Response('{"error":"no such route","code":"E404"}', { status: 404 }))
  await assert.rejects(go(KEYED), { code: 'NOT_FOUND', number: 0, status: 404, retryable: false })
})

test('a refusal that is not the host\'s has a name all the same', async () => {
  for (const [status, code] of [[401, 'UNAUTHENTICATED'], [404, 'NOT_FOUND'], [413, 'TOO_LARGE']]) {
    await assert.rejects(calling(gateway(status)).go(KEYED), { code, status, retryable: false })
  }
})

test('the input is read once, before the first try', async () => {
  const input = { lines: 1 }
  const { asked, go } = calling(() => { input.lines = 2; return lost() }, answer(1))
  await go(KEYED, input)
  assert.deepEqual(asked.map(({ body }) => body), ['{"lines":1}', '{"lines":1}'])
})

test('each try asks for the credentials anew', async () => {
  const { fetch, asked } = fakeFetch(lost, answer(1))
  const tokens = ['old', 'new']
  const ctx = createContext({ baseUrl: 'http://host.test', fetch, backoff: HASTE, token: async () => tokens.shift() })
  await invoke(ctx, 'orders', 'orders.pay', {}, KEYED)
  assert.deepEqual(asked.map(({ headers }) => headers.authorization), ['Bearer old', 'Bearer new'])
})

test('what the function for the credentials throws ends the call', async () => {
  const { fetch, asked } = fakeFetch()
  const ctx = createContext({ baseUrl: 'http://host.test', fetch, token: () => { throw new Error('signed out') } })
  await assert.rejects(invoke(ctx, 'orders', 'orders.pay', {}, KEYED), { message: 'signed out' })
  assert.equal(asked.length, 0)
})

test('credentials that do not come use up the try\'s time, and then the call\'s', async () => {
  const { fetch } = fakeFetch(answer('late'))
  const given = [new Promise(() => {}), 'secret']
  const late = createContext({ baseUrl: 'http://host.test', fetch, token: () => given.shift(), tryTimeout: 5, backoff: HASTE })
  assert.equal(await invoke(late, 'orders', 'orders.pay', {}, KEYED), 'late')
  const never = createContext({ baseUrl: 'http://host.test', fetch, token: () => new Promise(() => {}), deadline: 5 })
  await assert.rejects(invoke(never, 'orders', 'orders.pay', {}, KEYED), { code: 'UNAVAILABLE', message: /token/ })
})

test('an abort while the credentials are awaited ends the call with its reason', async () => {
  const stop = new AbortController()
  const ctx = createContext({ baseUrl: 'http://host.test', token: () => { setTimeout(() => stop.abort(new Error('enough'))); return new Promise(() => {}) } })
  await assert.rejects(invoke(ctx, 'orders', 'orders.pay', {}, { ...KEYED, signal: stop.signal }), { message: 'enough' })
})

test('a page in the host\'s place is tried again, and the error says what came', async () => {
  const page = () => new Response('<h1>sign in</h1>', { headers: { 'content-type': 'text/html' } })
  const { go } = calling(page, answer(7))
  assert.equal(await go(KEYED), 7)
  await assert.rejects(calling(page).go(), { code: 'UNAVAILABLE', status: 200, message: /text\/html.*baseUrl/ })
})

test('JSON that does not say code 0 is not the host\'s success', async () => {
  for (const body of ['{"code":4000,"data":null}', '{"data":1}', '{"code":"0","data":1}', '{"code":0}', '[]', 'null', '7']) {
    const other = () => new Response(body, { headers: { 'content-type': 'application/json' } })
    const { go } = calling(other, answer(7))
    assert.equal(await go(KEYED), 7, body)
    await assert.rejects(calling(other).go(), { code: 'UNAVAILABLE', status: 200, number: 0, retryable: false, message: /json.*baseUrl/ }, body)
  }
})

test('a header that the caller names in capitals is sent once', async () => {
  const { fetch, asked } = fakeFetch(answer(1))
  const ctx = createContext({ baseUrl: 'http://host.test', fetch, headers: { 'Content-Type': 'application/json', 'X-Tenant-Id': 'acme' } })
  await invoke(ctx, 'orders', 'orders.pay', {})
  assert.deepEqual(asked[0].headers, { 'content-type': 'application/json', 'x-tenant-id': 'acme' })
})

test('an input that JSON would change without a word is refused, and nothing is sent', async () => {
  const odd = [Promise.resolve(1), /x/, new Error('x'), new WeakMap(), new Headers(), () => 1, async () => 1, Symbol('x'), class {}]
  for (const [value, way] of [
    [1n, /BigInt.*string/], [NaN, /NaN/], [new Number(Infinity), /Infinity/], [new Map(), /Map.*object/], [new Set([1]), /array/],
    [new Uint8Array(2), /base64/], [new ArrayBuffer(2), /base64/], [new DataView(new ArrayBuffer(2)), /base64/], [new Date(NaN), /Invalid Date/],
    ...odd.map(value => [value, new RegExp(`the ${Object.prototype.toString.call(value).slice(8, -1)} holds`)]),
  ]) {
    const { asked, go } = calling()
    await assert.rejects(go(KEYED, { deep: [{ field: value }] }), error => error.code === 'VALIDATION' && /"field"/.test(error.message) && way.test(error.message))
    assert.equal(asked.length, 0)
  }
})

test('a hole in an array, a cycle, or a function alone is refused, and nothing is sent', async () => {
  const round = {}
  round.self = [round]
  for (const [input, why] of [[[1, undefined], /"1".*null/], [{ a: [, 1] }, /"0".*null/], [round, /holds itself/], [() => 1, /Function/], [Symbol('x'), /Symbol/]]) {
    const { asked, go } = calling()
    await assert.rejects(go({ ...KEYED, deadline: 50 }, input), error => error.code === 'VALIDATION' && !error.retryable && why.test(error.message))
    assert.equal(asked.length, 0)
  }
})

test('what JSON carries goes as it is', async () => {
  class Line { sku = 'pen'; toString() { return 'x' } }
  const input = {
    at: new Date(0), gone: undefined, none: null, line: new Line(), bare: Object.assign(Object.create(null), { a: true }),
    to: { toJSON: () => 7 }, by: new URL('http://host.test/'), boxed: [new String('a'), new Number(1), new Boolean(false)],
  }
  const { asked, go } = calling(answer(1))
  await go(KEYED, input)
  assert.equal(asked[0].body, '{"at":"1970-01-01T00:00:00.000Z","none":null,"line":{"sku":"pen"},"bare":{"a":true},"to":7,"by":"http://host.test/","boxed":["a",1,false]}')
})

test('without credentials there is no Authorization header', async () => {
  const { fetch, asked } = fakeFetch(answer(1))
  await invoke(createContext({ baseUrl: 'http://host.test', fetch, token: () => null }), 'orders', 'orders.pay', {}, KEYED)
  assert.equal('authorization' in asked[0].headers, false)
})

test('past the deadline the last error is thrown', async () => {
  const { fetch, asked } = fakeFetch(problem(503, 'OVERLOADED', true, { 'retry-after': '30' }))
  const ctx = createContext({ baseUrl: 'http://host.test', fetch, deadline: 20_000 })
  await assert.rejects(invoke(ctx, 'orders', 'orders.pay', {}, KEYED), { code: 'OVERLOADED' })
  assert.equal(asked.length, 1, 'waiting would go past the deadline')
})

test('a try that nobody answers counts as lost after its time', async () => {
  const { fetch } = fakeFetch(silence, answer('late'))
  const ctx = createContext({ baseUrl: 'http://host.test', fetch, tryTimeout: 5, backoff: HASTE })
  assert.equal(await invoke(ctx, 'orders', 'orders.pay', {}, KEYED), 'late')
})

test('silence until the deadline is UNAVAILABLE, with the outcome unknown', async () => {
  const { fetch } = fakeFetch(silence)
  const ctx = createContext({ baseUrl: 'http://host.test', fetch, deadline: 5 })
  await assert.rejects(invoke(ctx, 'orders', 'orders.pay', {}, KEYED), { code: 'UNAVAILABLE', status: 0, retryable: true })
})

test('an abort during a try ends the call with its reason', async () => {
  const stop = new AbortController()
  const { asked, go } = calling(init => { stop.abort(new Error('enough')); return silence(init) }, answer(1))
  await assert.rejects(go({ ...KEYED, signal: stop.signal }), { message: 'enough' })
  assert.equal(asked.length, 1)
})

test('an abort during a pause ends the call with its reason', async () => {
  const stop = new AbortController()
  const { fetch, asked } = fakeFetch(() => { queueMicrotask(() => setTimeout(() => stop.abort(), 1)); return lost() })
  const ctx = createContext({ baseUrl: 'http://host.test', fetch, backoff: { first: 3_000_000, longest: 3_000_000 }, deadline: Infinity })
  await assert.rejects(invoke(ctx, 'orders', 'orders.pay', {}, { ...KEYED, signal: stop.signal }), { name: 'AbortError' })
  assert.equal(asked.length, 1)
})

test('a call that was aborted before sends nothing', async () => {
  const { asked, go } = calling()
  await assert.rejects(go({ ...KEYED, signal: AbortSignal.abort() }), { name: 'AbortError' })
  assert.equal(asked.length, 0)
})

test('what went before leaves nothing on the caller\'s signal', async () => {
  const { signal } = new AbortController()
  let listening = 0
  const [add, remove] = [signal.addEventListener.bind(signal), signal.removeEventListener.bind(signal)]
  signal.addEventListener = (...args) => { listening += 1; add(...args) }
  signal.removeEventListener = (...args) => { listening -= 1; remove(...args) }
  const { go } = calling(lost, answer(1))
  await go({ ...KEYED, signal })
  assert.equal(listening, 0)
})

test('invokeRaw tells of replay, expiry, request and tries', async () => {
  const headers = { 'idempotent-replayed': 'true', 'idempotency-expires': 'Sun, 06 Dec 2026 17:52:53 GMT', 'x-request-id': 'r-9' }
  const { ctx } = calling(lost, answer({ a: 1 }, headers))
  const raw = await invokeRaw(ctx, 'orders', 'orders.pay', {}, KEYED)
  assert.deepEqual(raw, { data: { a: 1 }, replayed: true, expires: new Date('2026-12-06T17:52:53Z'), requestId: 'r-9', tries: 2 })
})

test('pauses grow twofold with jitter up to the longest', () => {
  const ctx = createContext({ baseUrl: 'http://host.test', backoff: { first: 100, longest: 1000 } })
  for (const [tried, most] of [[1, 100], [2, 200], [3, 400], [4, 800], [5, 1000], [50, 1000]]) {
    const pauses = Array.from({ length: 200 }, () => delay(ctx, tried, null))
    assert.ok(Math.min(...pauses) >= most / 2 && Math.max(...pauses) <= most, `${tried}: ${pauses}`)
    assert.ok(new Set(pauses).size > 100, 'callers who failed together do not come back together')
  }
})

test('Retry-After is waited for, in seconds or as a date', () => {
  const ctx = createContext({ baseUrl: 'http://host.test', backoff: HASTE })
  assert.equal(delay(ctx, 1, '7'), 7000)
  assert.equal(delay(ctx, 1, 'Thu, 01 Jan 1970 00:00:00 GMT'), 0)
  const soon = delay(ctx, 1, new Date(Date.now() + 60_000).toUTCString())
  assert.ok(soon > 50_000 && soon <= 60_000, String(soon))
  for (const junk of ['', 'soon', null, undefined, '-5']) assert.equal(delay(ctx, 1, junk), 0)
})

test('a context without an address is refused at once', () => {
  assert.throws(() => createContext({}), /baseUrl/)
  assert.throws(() => createContext({ baseUrl: '' }), /baseUrl/)
})

test('a time that is no number of milliseconds is refused at once', async () => {
  for (const time of [NaN, '5s', '5', -1]) {
    for (const options of [{ deadline: time }, { tryTimeout: time }, { backoff: { first: time } }, { backoff: { longest: time } }]) {
      assert.throws(() => createContext({ baseUrl: 'http://host.test', ...options }), { name: 'TypeError', message: /^(deadline|tryTimeout|backoff\.\w+) must be a number of milliseconds/ })
    }
    const { asked, go } = calling()
    await assert.rejects(go({ ...KEYED, deadline: time }), { name: 'TypeError', message: /deadline must be a number of milliseconds/ })
    assert.equal(asked.length, 0)
  }
})

test('an address that no request could go to is refused at once, without quoting a password', () => {
  for (const baseUrl of ['localhost:7171', '127.0.0.1:7171', 'nope', '/api', 'ftp://host.test', 'http://']) {
    assert.throws(() => createContext({ baseUrl }), { name: 'TypeError', message: /baseUrl such as https:\/\// }, baseUrl)
  }
  for (const baseUrl of ['http://ada:secret@host.test', 'http://ada@host.test', 'http://host.test/?a=1', 'http://host.test/#a']) {
    assert.throws(() => createContext({ baseUrl }), error => error.name === 'TypeError' && /baseUrl/.test(error.message) && !/secret/.test(error.message), baseUrl)
  }
  for (const [baseUrl, is] of [[new URL('https://host.test/'), 'https://host.test'], [' http://host.test/p@th// ', 'http://host.test/p@th'], ['http://[::1]:7070', 'http://[::1]:7070']]) {
    assert.equal(createContext({ baseUrl }).baseUrl, is)
  }
})

test('a header that cannot be sent is refused at once, by its name', () => {
  const making = headers => () => createContext({ baseUrl: 'http://host.test', headers })
  for (const name of ['x y', 'x:', 'имя', '']) assert.throws(making({ [name]: '1' }), { name: 'TypeError', message: `createContext: no request can carry the header "${name}"` })
  for (const value of ['a\nsecret', 'secret имя', '\0secret']) {
    assert.throws(making({ 'X-Api-Key': value }), error => error.name === 'TypeError' && /"X-Api-Key"/.test(error.message) && !/secret/.test(error.message))
  }
  making({ 'X-Tenant-Id': 'acme', 'x_!#$%&\'*+.^`|~-1': 'é\t' })()
})

test('a token that no header carries is refused before anything is sent', async () => {
  for (const token of ['top\nsecret', 'секрет', () => 'a\rb', async () => '\0']) {
    const { fetch, asked } = fakeFetch()
    const ctx = createContext({ baseUrl: 'http://host.test', fetch, token, backoff: HASTE, deadline: 50 })
    await assert.rejects(invoke(ctx, 'orders', 'orders.pay', {}, KEYED), error => {
      return error.code === 'UNAUTHENTICATED' && !error.retryable && /`token`/.test(error.message) && !/secret/.test(error.message)
    })
    assert.equal(asked.length, 0)
  }
})
