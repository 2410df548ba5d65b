// Against a small server that keeps the contract of /notifications, in the form of the host's.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createContext, subscribe } from '../../dist/index.js'
import { stream } from '../support/stream.mjs'

const MESSAGES = process.env['ONCEHOST_LONG'] ? 10_000 : 1000
const seed = Number(process.env['ONCEHOST_SEED'] ?? Date.now() % 2 ** 32)
const backoff = { first: 1, longest: 5 }

/** Listens, and gives what comes and a way to wait for it. */
function listening(t, server, options = {}, topics = ['a.b', 'c']) {
  const ctx = createContext({ baseUrl: server.url, token: 'secret', backoff })
  const got = []
  const waiting = []
  const note = thing => {
    got.push(thing)
    for (const wait of waiting.splice(0)) wait()
  }
  const subscription = subscribe(ctx, topics, {
    onEvent: note,
    onResync: ({ id, data }) => note({ resync: id, data }),
    onOpen: () => note('open'),
    ...options,
  })
  t.after(() => subscription.close())
  const until = async holds => {
    while (!holds(got)) await new Promise(go => { waiting.push(go) })
    return got
  }
  return { subscription, got, until, events: () => got.filter(thing => thing.id !== undefined) }
}

test('events come in order, with the token in a header and the topics in the address', async t => {
  const server = await stream(t)
  const { until, events } = listening(t, server)
  await until(got => got.includes('open'))
  server.publish('a.b', { n: 1 })
  server.publish('c', 'text')
  await until(got => got.length === 3)
  const rest = { subject: null, publishedAt: '2026-01-01T00:00:00.000Z' }
  assert.deepEqual(events(), [
    { id: '1', eventId: 'e1', topic: 'a.b', payload: { n: 1 }, ...rest }, { id: '2', eventId: 'e2', topic: 'c', payload: 'text', ...rest },
  ])
  assert.equal(server.requests[0].url, '/notifications?topics=a.b,c')
  assert.equal(server.requests[0].headers.authorization, 'Bearer secret')
  assert.equal(server.requests[0].headers['last-event-id'], undefined)
})

test(`no gap and no double in ${MESSAGES} events over random cuts (ONCEHOST_SEED=${seed})`, async t => {
  const server = await stream(t, { seed, cutting: 0.02 })
  const { until, events, subscription } = listening(t, server, { lastEventId: '0' })
  for (let n = 1; n <= MESSAGES; n += 1) {
    server.publish('a.b', { n })
    if (n % 50 === 0) await new Promise(setImmediate)
  }
  await until(() => events().length >= MESSAGES)
  assert.deepEqual(events().map(({ payload }) => payload.n), Array.from({ length: MESSAGES }, (_, index) => index + 1))
  assert.equal(subscription.lastEventId, String(MESSAGES))
  assert.ok(server.requests.length > 5, 'connections were cut')
})

test('it goes on behind the event that was handled, not behind the one that came', async t => {
  const server = await stream(t)
  let release
  const handled = []
  const { until } = listening(t, server, {
    lastEventId: '0',
    onEvent: async event => {
      handled.push(event.id)
      if (handled.length === 1) await new Promise(go => { release = go })
    },
  })
  server.publish('c', 1)
  server.publish('c', 2)
  await until(got => got.includes('open'))
  while (!release) await new Promise(setImmediate)
  server.cut()
  release()
  await until(got => got.filter(thing => thing === 'open').length === 2)
  while (handled.length < 2) await new Promise(setImmediate)
  assert.deepEqual(handled, ['1', '2'])
})

test('a message that comes again behind itself is told once', async t => {
  const server = await stream(t)
  const { until, events } = listening(t, server)
  await until(got => got.includes('open'))
  const message = 'id: 7\ndata: {"topic":"c"}\n\n'
  server.raw(message, message, 'id: 8\ndata: {"topic":"c"}\n\n')
  await until(() => events().some(({ id }) => id === '8'))
  assert.deepEqual(events().map(({ id }) => id), ['7', '8'])
})

test('history that is gone is told as a resync, and the stream goes on behind it', async t => {
  const server = await stream(t)
  for (let n = 1; n <= 5; n += 1) server.publish('c', n)
  server.state.kept = 3
  const { until, got } = listening(t, server, { lastEventId: '1' })
  await until(() => got.length === 4)
  assert.deepEqual(got.slice(1).map(thing => thing.resync ?? thing.id), ['3', '4', '5'])
  server.cut()
  await until(() => got.filter(thing => thing === 'open').length === 2)
  assert.equal(server.requests[1].headers['last-event-id'], '5')
})

test('a refusal for good ends it with the host\'s error', async t => {
  const server = await stream(t)
  server.state.refuse = { status: 403, body: { error: 'FORBIDDEN', detail: 'needs notifications:c', code: 4030, retryable: false } }
  const { subscription } = listening(t, server)
  await assert.rejects(subscription.closed, { code: 'FORBIDDEN', message: 'needs notifications:c' })
  assert.equal(server.requests.length, 1)
})

test('a refusal for now is waited out', async t => {
  const server = await stream(t)
  server.state.refuse = { status: 503, body: { error: 'UNAVAILABLE', detail: 'later', code: 5031, retryable: true } }
  const errors = []
  const { until } = listening(t, server, { onError: error => { errors.push(error.code); server.state.refuse = undefined } })
  await until(got => got.includes('open'))
  assert.deepEqual(errors, ['UNAVAILABLE'])
})

test('what onEvent throws ends it, and the event counts as not handled', async t => {
  const server = await stream(t)
  const { subscription } = listening(t, server, { lastEventId: '0', onEvent: () => { throw new Error('mine') } })
  server.publish('c', 1)
  await assert.rejects(subscription.closed, { message: 'mine' })
  assert.equal(subscription.lastEventId, '0')
})

test('an answer that is no stream is told of, and asked for again', async t => {
  const source = await stream(t)
  const told = []
  const page = () => new Response('<h1>sign in</h1>', { headers: { 'content-type': 'text/html' } })
  const answers = [page, (url, init) => fetch(url, init)]
  const ctx = createContext({ baseUrl: source.url, fetch: async (url, init) => answers.shift()(url, init), backoff: { first: 1, longest: 1 } })
  await new Promise(open => {
    const subscription = subscribe(ctx, ['a'], { onEvent() {}, onError: error => told.push(error), onOpen: open })
    t.after(() => subscription.close())
  })
  assert.deepEqual(told.map(({ code }) => code), ['UNAVAILABLE'])
  assert.match(told[0].message, /text\/html.*baseUrl/)
})

test('a token that no header carries ends it', async () => {
  const ctx = createContext({ baseUrl: 'http://host.test', token: 'a\nb', backoff })
  await assert.rejects(subscribe(ctx, ['a'], { onEvent() {} }).closed, { code: 'UNAUTHENTICATED', message: /`token`/ })
})

test('closing ends it also while credentials are awaited', async () => {
  const ctx = createContext({ baseUrl: 'http://host.test', token: () => new Promise(() => {}) })
  const subscription = subscribe(ctx, ['a'], { onEvent() {} })
  subscription.close()
  await subscription.closed
})

test('closing ends the connection', async t => {
  const server = await stream(t)
  const { subscription, until } = listening(t, server)
  await until(got => got.includes('open'))
  subscription.close()
  await subscription.closed
  assert.equal(server.requests.length, 1)
})

test('the caller\'s signal closes it', async t => {
  const server = await stream(t)
  const stop = new AbortController()
  const { subscription, until } = listening(t, server, { signal: stop.signal })
  await until(got => got.includes('open'))
  stop.abort()
  await subscription.closed
})

test('a connection without a sign of life is made again', async t => {
  const server = await stream(t)
  const { until } = listening(t, server, { idleTimeout: 20 })
  await until(got => got.filter(thing => thing === 'open').length >= 3)
})

test('whoever loses the connection before the first message misses none', async t => {
  const server = await stream(t)
  server.publish('c', 'before')
  const { until, events } = listening(t, server)
  await until(got => got.includes('open'))
  server.cut()
  server.publish('c', 'meanwhile')
  await until(() => events().length === 1)
  assert.equal(server.requests[1].headers['last-event-id'], '1')
  assert.equal(events()[0].payload, 'meanwhile')
})

test('the stream\'s form is read as its standard says', async t => {
  const server = await stream(t)
  const { until, events } = listening(t, server)
  await until(got => got.includes('open'))
  const snow = Buffer.from('data: {"topic":"☃"}\n\n')
  server.raw(': a comment\n', 'id: 7\r\nfield: x\r', '\ndata: {"topic":\r\ndata:"c"}\r\n\r\n', 'retry: 5\n\n', 'data: 1\n\n', snow.subarray(0, 18))
  await new Promise(setImmediate)
  server.raw(snow.subarray(18))
  await until(() => events().length === 3)
  assert.deepEqual(events(), [{ id: '7', topic: 'c' }, { id: '' }, { id: '', topic: '☃' }])
})

test('what nobody could listen with is told at once', () => {
  const ctx = createContext({ baseUrl: 'http://host.test' })
  for (const idleTimeout of [NaN, -1, '5s']) {
    assert.throws(() => subscribe(ctx, ['a'], { onEvent() {}, idleTimeout }), { name: 'TypeError', message: /idleTimeout must be a number of milliseconds/ })
  }
  for (const [topics, options] of [['a', { onEvent() {} }], [['a'], {}]]) {
    assert.throws(() => subscribe(ctx, topics, options), { name: 'TypeError', message: /topics must be an array, onEvent a function/ })
  }
})

test('a place that a storage does not have is none', async t => {
  const server = await stream(t)
  const { until } = listening(t, server, { lastEventId: null })
  await until(got => got.includes('open'))
  assert.equal(server.requests[0].headers['last-event-id'], undefined)
})
