import assert from 'node:assert/strict'
import { webcrypto } from 'node:crypto'
import { test } from 'node:test'
import { createContext, keyStore } from '../../dist/index.js'
import { answer, fakeFetch, gateway, HASTE, lost, problem, silence } from '../support/fake.mjs'
import { memoryLocks, memoryStorage } from '../support/storage.mjs'

// Node.js 18 has it, but not as a global.
globalThis.crypto ??= webcrypto

function calling(...answers) {
  const { fetch, asked } = fakeFetch(...answers)
  return { ctx: createContext({ baseUrl: 'http://host.test', fetch, backoff: HASTE, deadline: 1000 }), asked }
}

/** A page that ends while its call is under way: its storage is all that is left of it. */
async function reloadedInFlight(storage, input = { sku: 'pen' }, options = {}) {
  const sent = Promise.withResolvers?.() ?? deferred()
  const { ctx, asked } = calling(init => { sent.resolve(); return silence(init) })
  const stop = new AbortController()
  const going = keyStore(storage, options).invoke(ctx, 'orders', 'orders.buy', input, { signal: stop.signal }).catch(() => {})
  await sent.promise
  const left = [...Array(storage.length).keys()].map(index => [storage.key(index), storage.getItem(storage.key(index))])
  stop.abort()
  await going
  for (const [name, value] of left) storage.setItem(name, value)
  return asked[0].key
}

function deferred() {
  let resolve
  return { promise: new Promise(go => { resolve = go }), resolve }
}

test('a page that is reloaded in flight goes on with the same key and input', async () => {
  const storage = memoryStorage()
  const key = await reloadedInFlight(storage)
  const { ctx, asked } = calling(answer({ order: 1 }))
  const keys = keyStore(storage)
  const [intent, ...others] = keys.unfinished()
  assert.deepEqual(others, [])
  assert.deepEqual(await keys.resume(ctx, intent), { order: 1 })
  assert.deepEqual([asked[0].key, asked[0].body], [key, '{"sku":"pen"}'])
  assert.deepEqual(keys.unfinished(), [])
})

test('another call never gets the key of an unfinished one, not even with the same input', async () => {
  const storage = memoryStorage()
  const key = await reloadedInFlight(storage)
  const { ctx, asked } = calling(answer(1), answer(2))
  const keys = keyStore(storage)
  await keys.invoke(ctx, 'orders', 'orders.buy', { sku: 'pen' })
  await keys.invoke(ctx, 'orders', 'orders.buy', { sku: 'pen' })
  assert.equal(new Set([key, asked[0].key, asked[1].key]).size, 3)
  assert.equal(keys.unfinished().length, 1)
})

test('a key of one\'s own that an unfinished intent has is refused for another', async () => {
  const { ctx } = calling(lost, lost)
  const keys = keyStore(memoryStorage())
  const options = { idempotencyKey: 'cart-1', deadline: 0 }
  await assert.rejects(keys.invoke(ctx, 'orders', 'orders.buy', { sku: 'pen' }, options), { code: 'UNAVAILABLE' })
  await assert.rejects(keys.invoke(ctx, 'orders', 'orders.buy', { sku: 'ink' }, options), { code: 'KEY_REUSED' })
  await assert.rejects(keys.invoke(ctx, 'orders', 'orders.buy', { sku: 'pen' }, options), { code: 'UNAVAILABLE' })
  assert.deepEqual(keys.unfinished().map(({ key, input }) => [key, input]), [['cart-1', { sku: 'pen' }]])
})

test('the same input in another order is the same intent', async () => {
  const { ctx, asked } = calling(lost, answer(1))
  const keys = keyStore(memoryStorage())
  await assert.rejects(keys.invoke({ ...ctx, deadline: 0 }, 'orders', 'orders.buy', { sku: 'pen', lines: [{ a: 1, b: 2 }] }, { idempotencyKey: 'cart-1' }))
  assert.equal(await keys.invoke(ctx, 'orders', 'orders.buy', { lines: [{ b: 2, a: 1 }], sku: 'pen' }, { idempotencyKey: 'cart-1' }), 1)
  assert.deepEqual(asked.map(({ key }) => key), ['"cart-1"', '"cart-1"'])
})

test('an input that no storage could give back is refused before it is noted', async () => {
  const { ctx } = calling()
  const keys = keyStore(memoryStorage())
  await assert.rejects(keys.invoke(ctx, 'orders', 'orders.buy', { count: NaN }), { code: 'VALIDATION' })
  assert.deepEqual(keys.unfinished(), [])
})

test('a deadline that is none is refused before the intent is noted', async () => {
  const { ctx } = calling()
  const keys = keyStore(memoryStorage())
  await assert.rejects(keys.invoke(ctx, 'orders', 'orders.buy', {}, { deadline: '5s' }), { name: 'TypeError', message: /deadline/ })
  assert.deepEqual(keys.unfinished(), [])
})

test('without a storage it is refused at once', () => {
  assert.throws(() => keyStore(undefined), /keyStore needs a storage/)
})

test('the key is noted before anything is sent', async () => {
  const storage = memoryStorage()
  let noted
  const { ctx } = calling(() => { noted = keyStore(storage).unfinished(); return answer(1)() })
  await keyStore(storage).invoke(ctx, 'orders', 'orders.buy', { sku: 'pen' })
  assert.equal(noted.length, 1)
})

test('a storage that takes nothing keeps the call from being sent', async () => {
  const { ctx, asked } = calling()
  const full = { ...memoryStorage(), setItem: () => { throw new Error('quota') } }
  await assert.rejects(keyStore(full).invoke(ctx, 'orders', 'orders.buy', {}), { message: 'quota' })
  assert.equal(asked.length, 0)
})

test('a final refusal lets go of the intent', async () => {
  const keys = keyStore(memoryStorage())
  const { ctx } = calling(problem(409, 'OUT_OF_STOCK', false))
  await assert.rejects(keys.invoke(ctx, 'orders', 'orders.buy', {}), { code: 'OUT_OF_STOCK' })
  assert.deepEqual(keys.unfinished(), [])
})

for (const [name, mishap] of Object.entries({
  'no answer': lost,
  'a handler that failed': problem(500, 'SCRIPT', false),
  'a 404 of something in between': gateway(404),
  'credentials that ran out': problem(401, 'UNAUTHENTICATED', false),
})) {
  test(`${name} keeps the intent`, async () => {
    const keys = keyStore(memoryStorage())
    const { ctx } = calling(mishap)
    await assert.rejects(keys.invoke(ctx, 'orders', 'orders.buy', {}, { deadline: 0 }))
    assert.equal(keys.unfinished().length, 1)
  })
}

test('intents of one scope are not another\'s', async () => {
  const storage = memoryStorage()
  await reloadedInFlight(storage, {}, { scope: 'ada' })
  assert.deepEqual(['ada', 'ad', 'ada:x', ''].map(scope => keyStore(storage, { scope }).unfinished().length), [1, 0, 0, 0])
})

test('an intent that is too old is let go', async () => {
  const storage = memoryStorage()
  await reloadedInFlight(storage)
  const name = storage.key(0)
  const intent = JSON.parse(storage.getItem(name))
  storage.setItem(name, JSON.stringify({ ...intent, begun: intent.begun - 60_001 }))
  assert.deepEqual(keyStore(storage, { keepFor: 60_000 }).unfinished(), [])
  assert.equal(storage.length, 0)
})

test('what else is in the storage stays', () => {
  const storage = memoryStorage()
  storage.setItem('theme', 'dark')
  storage.setItem('oncehost::junk', '{')
  assert.deepEqual(keyStore(storage).unfinished(), [])
  assert.deepEqual([storage.length, storage.getItem('theme')], [1, 'dark'])
})

test('two tabs do not work on one intent at the same time', async t => {
  const before = Object.getOwnPropertyDescriptor(globalThis, 'navigator')
  Object.defineProperty(globalThis, 'navigator', { configurable: true, value: { locks: memoryLocks() } })
  t.after(() => before ? Object.defineProperty(globalThis, 'navigator', before) : delete globalThis.navigator)
  const storage = memoryStorage()
  await reloadedInFlight(storage)
  let busy = 0
  const slow = value => async () => {
    assert.equal(++busy, 1)
    await new Promise(setImmediate)
    busy -= 1
    return answer(value)()
  }
  const { ctx, asked } = calling(slow(1), slow(1))
  const keys = keyStore(storage)
  const [intent] = keys.unfinished()
  assert.deepEqual(await Promise.all([keys.resume(ctx, intent), keyStore(storage).resume(ctx, intent)]), [1, 1])
  assert.equal(asked[0].key, asked[1].key)
})

test('another tab that is at an intent is waited for as long as the call may take', async t => {
  const before = Object.getOwnPropertyDescriptor(globalThis, 'navigator')
  const locks = memoryLocks()
  Object.defineProperty(globalThis, 'navigator', { configurable: true, value: { locks } })
  t.after(() => before ? Object.defineProperty(globalThis, 'navigator', before) : delete globalThis.navigator)
  const storage = memoryStorage()
  await reloadedInFlight(storage)
  const [name] = Array.from({ length: storage.length }, (_, index) => storage.key(index))
  let done
  const other = locks.request(name, { signal: new AbortController().signal }, () => new Promise(resolve => { done = resolve }))
  const { ctx, asked } = calling(answer(1))
  const keys = keyStore(storage)
  const [intent] = keys.unfinished()
  await assert.rejects(keys.resume(ctx, intent, { deadline: 20 }), { code: 'UNAVAILABLE', retryable: true })
  const why = new Error('enough')
  await assert.rejects(keys.resume(ctx, intent, { signal: AbortSignal.abort(why) }), why)
  assert.equal(asked.length, 0)
  done()
  await other
  assert.equal(await keys.resume(ctx, intent), 1)
})

test('a time to keep that is no number lets nothing go', () => {
  for (const keepFor of [NaN, '7d']) {
    assert.throws(() => keyStore(new Map(), { keepFor }), { name: 'TypeError', message: /keepFor must be a number of milliseconds/ })
  }
})
