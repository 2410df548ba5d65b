// Many intents over a network that drops, delays, doubles, reorders and cuts: each has one effect, and each caller
// gets its own answer. 10,000 of them with ONCEHOST_LONG, a few hundred without.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createContext, invokeRaw } from '../../dist/index.js'
import { host } from '../support/host.mjs'
import { badNetwork } from '../support/proxy.mjs'

const INTENTS = process.env['ONCEHOST_LONG'] ? 10_000 : 300
const CALLERS = 16
const seed = Number(process.env['ONCEHOST_SEED'] ?? Date.now() % 2 ** 32)

/** All events that the host has, page by page. */
async function events(url) {
  const ctx = createContext({ baseUrl: url })
  const found = []
  let cursor
  do {
    const page = await invokeRaw(ctx, 'lane-change', 'lane-change.list-events', { limit: 1000, ...(cursor && { cursor }) }, { read: true })
    found.push(...page.data.events)
    cursor = page.data.next_cursor
  } while (cursor)
  return found
}

test(`${INTENTS} intents over a bad network (ONCEHOST_SEED=${seed})`, async t => {
  const { url } = await host(t)
  const network = await badNetwork(t, url, { seed })
  const ctx = createContext({ baseUrl: network.url, tryTimeout: 1000, deadline: 60_000, backoff: { first: 2, longest: 50 } })
  const answers = new Map()
  let next = 0
  let requests = 0
  const caller = async () => {
    while (next < INTENTS) {
      const name = `crossing-${next++}`
      const input = { event_key: name, crossed_at: '2026-03-12T07:15:02.480Z', obj_id: name, region_id: 'r' }
      const reply = await invokeRaw(ctx, 'lane-change', 'lane-change.create-event', input, { idempotencyKey: `过:${name}` })
      requests += reply.tries
      answers.set(name, reply)
    }
  }
  await Promise.all(Array.from({ length: CALLERS }, caller))

  await t.test('each intent has one effect', async () => {
    const found = await events(url)
    assert.equal(found.length, INTENTS)
    assert.equal(new Set(found.map(({ event_key }) => event_key)).size, INTENTS)
  })

  await t.test('each caller gets its own answer, the first one', async () => {
    const ids = new Map((await events(url)).map(({ event_key, id }) => [event_key, id]))
    for (const [name, { data }] of answers) assert.deepEqual([data.event_id, data.created], [ids.get(name), true], name)
    assert.equal(answers.size, INTENTS)
  })

  await t.test('tries of one intent have one key and no two intents share one', () => {
    const keys = new Map()
    for (const { key, body } of network.seen) {
      const { event_key } = JSON.parse(body)
      assert.equal(keys.get(event_key) ?? key, key, event_key)
      keys.set(event_key, key)
    }
    assert.equal(keys.size, INTENTS)
    assert.equal(new Set(keys.values()).size, INTENTS)
  })

  await t.test('the network was bad', () => {
    t.diagnostic(`${requests} requests: ${JSON.stringify(network.count)}`)
    for (const mishap of ['drop', 'lose', 'cut', 'double', 'hold', 'refuse']) assert.ok(network.count[mishap] > 0, mishap)
    assert.ok([...answers.values()].some(({ replayed }) => replayed))
  })
})
