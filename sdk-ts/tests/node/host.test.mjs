// Against the real host: what the SDK means and what the host understands are the same.

import assert from 'node:assert/strict'
import http from 'node:http'
import { after, test } from 'node:test'
import { createContext, invoke, invokeRaw, OncehostError, subscribe } from '../../dist/index.js'
import { host } from '../support/host.mjs'

// Not in a `before`: Deno's has no context to clean up behind.
const { url } = await host({ after })
const ctx = createContext({ baseUrl: url, headers: { 'x-tenant-id': 'acme' } })

const crossing = name => ({ event_key: name, crossed_at: '2026-03-12T07:15:02.480Z', obj_id: name, region_id: 'r' })
const create = (name, idempotencyKey) => invokeRaw(ctx, 'lane-change', 'lane-change.create-event', crossing(name), { idempotencyKey })

/** The host's answer to a key that is sent as these bytes. */
function bare(key, name) {
  return new Promise((resolve, reject) => {
    const headers = { 'content-type': 'application/json', 'x-tenant-id': 'acme', 'idempotency-key': Buffer.from(key).toString('latin1') }
    const request = http.request(`${url}/plugins/lane-change/invoke/lane-change.create-event`, { method: 'POST', headers }, response => {
      response.resume()
      resolve(response.headers['idempotent-replayed'] === 'true')
    })
    request.on('error', reject)
    // A text here would have Node write the header as UTF-8 of its Latin-1.
    request.end(Buffer.from(JSON.stringify(crossing(name))))
  })
}

test('the second call with a key gets the first one\'s reply', async () => {
  const first = await create('twice', 'cam-1')
  const second = await create('twice', 'cam-1')
  assert.equal(first.data.created, true)
  assert.deepEqual([first.replayed, second.replayed], [false, true])
  assert.deepEqual(second.data, first.data)
  assert.ok(first.expires > new Date() && first.requestId && first.requestId !== second.requestId)
})

test('a key is the same text in each form that callers send', async () => {
  for (const [index, key] of ['plain', 'with "quotes" \\ and %', '车道变换:☃:é', ' spaces  within ', 'é'.repeat(127)].entries()) {
    const name = `form-${index}`
    assert.equal((await create(name, key)).replayed, false)
    // Bare keys lose spaces at their ends on the way.
    if (key === key.trim()) assert.equal(await bare(key, name), true, key)
    assert.equal((await create(name, key)).replayed, true, key)
  }
})

test('a key with other input is KEY_REUSED', async () => {
  await create('one', 'reused')
  const error = await create('other', 'reused').catch(error => error)
  assert.ok(error instanceof OncehostError)
  assert.deepEqual([error.code, error.number, error.status, error.retryable], ['KEY_REUSED', 4220, 422, false])
})

test('faults of fields are told by their pointers', async () => {
  const input = { ...crossing('x'), obj_id: 7 }
  await assert.rejects(invoke(ctx, 'lane-change', 'lane-change.create-event', input, { idempotencyKey: 'k' }), error => {
    return error.code === 'VALIDATION' && error.fields[0].pointer === '/obj_id'
  })
})

test('a refusal of the plugin has its own name', async () => {
  await assert.rejects(invoke(ctx, 'lane-change', 'lane-change.get-event', { event_id: 'nowhere' }, { read: true }), {
    code: 'EVENT_NOT_FOUND', number: 1000, status: 404,
  })
})

test('a name that is not there is NOT_FOUND, with the nearest one', async () => {
  await assert.rejects(invoke(ctx, 'lane-change', 'lane-change.get-evnt', {}, { read: true }), error => {
    return error.code === 'NOT_FOUND' && error.message.includes('did you mean "lane-change.get-event"')
  })
})

test('a host that is not there is UNAVAILABLE', async () => {
  const nowhere = createContext({ baseUrl: 'http://127.0.0.1:1', deadline: 50, backoff: { first: 1, longest: 1 } })
  await assert.rejects(invoke(nowhere, 'orders', 'orders.pay', {}, { idempotencyKey: 'k' }), { code: 'UNAVAILABLE', status: 0 })
})

test('what plugins publish is heard, once and in order, also behind a place', async t => {
  const hear = async (count, lastEventId, act = () => {}) => {
    const got = []
    let done, opened
    const all = new Promise(resolve => { done = resolve })
    const open = new Promise(resolve => { opened = resolve })
    const subscription = subscribe(ctx, ['lane-change.event-created'], {
      lastEventId, onOpen: () => opened(), onEvent: event => { if (got.push(event) === count) done() },
    })
    t.after(() => subscription.close())
    await open
    await act()
    await all
    subscription.close()
    return got
  }
  const names = ['heard-1', 'heard-2', 'heard-3']
  const heard = await hear(3, undefined, async () => {
    for (const name of names) await create(name, name)
  })
  assert.deepEqual(heard.map(({ topic, payload }) => [topic, payload.event_key]), names.map(name => ['lane-change.event-created', name]))
  assert.equal(new Set(heard.map(({ eventId }) => eventId)).size, 3)
  const again = await hear(2, heard[0].id)
  assert.deepEqual(again, heard.slice(1))
})
