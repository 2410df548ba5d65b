// A page that listens, loses its connection at random, and outlives kills of the host: no gap, no double, in order.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { binary } from '../../sdk-ts/tests/support/host.mjs'
import { browser } from './chromium.mjs'
import { host } from './support/host.mjs'
import { proxy } from './support/proxy.mjs'

const COUNT = 10_000
const BATCH = 20
const CUTS = 12
const KILLS = 2

const files = {
  'say/plugin.json': '{ "id": "say", "version": "1.0.0", "permissions": ["notify:publish"] }',
  'say/handlers/say.ts': `
    export function handle(input: { from: number, to: number }) {
      for (let n = input.from; n < input.to; n++) {
        const sent = notify.publish('said', { n })
        if (!sent.ok) throw sent.error
      }
      return null
    }`,
}

test('a page that loses its connection misses nothing and hears nothing twice', async (t) => {
  const server = await host(binary, files)
  t.after(() => server.end())
  await server.start()
  const between = await proxy(server.port)
  t.after(() => between.end())
  const page = await (await browser(t)).newPage()
  await page.goto(`${between.url}/healthz`)
  await page.evaluate(() => new Promise((listening) => {
    globalThis.heard = []
    globalThis.resyncs = 0
    globalThis.opened = 0
    const source = new EventSource('/notifications?topics=said')
    source.onmessage = ({ data }) => globalThis.heard.push(JSON.parse(data).payload.n)
    source.addEventListener('resync', () => { globalThis.resyncs += 1 })
    source.onopen = () => {
      globalThis.opened += 1
      listening()
    }
  }))

  // Which message each cut and kill comes after is random, and printed with a failure.
  const seed = Number(process.env.ONCEHOST_SEED ?? 7)
  let state = seed
  const random = (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state % below
  }
  const points = (number) => new Set(Array.from({ length: number }, () => random(COUNT / BATCH)))
  const [cuts, kills] = [points(CUTS), points(KILLS)]
  const say = async (from) => {
    for (;;) {
      const said = await fetch(`${server.url}/plugins/say/invoke/say`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'idempotency-key': `from-${from}` },
        body: JSON.stringify({ from, to: from + BATCH }),
      }).then((it) => it.ok, () => false)
      if (said) return
    }
  }
  let lost = 0
  for (let batch = 0; batch < COUNT / BATCH; batch++) {
    await say(batch * BATCH)
    if (!cuts.has(batch) && !kills.has(batch)) continue
    // What is said from a cut on until the page is back is what it could miss.
    await page.waitForFunction((lost) => globalThis.opened > lost, lost, { timeout: 60_000 })
    lost += 1
    if (cuts.has(batch)) between.cut()
    if (kills.has(batch)) {
      await server.kill()
      await server.start()
    }
  }
  await page.waitForFunction((lost) => globalThis.opened > lost, lost, { timeout: 60_000 })
  await page.waitForFunction((all) => globalThis.heard.length >= all, COUNT, { timeout: 60_000 }).catch(() => {})
  const { heard, resyncs, opened } = await page.evaluate(() => ({
    heard: globalThis.heard,
    resyncs: globalThis.resyncs,
    opened: globalThis.opened,
  }))
  const doubles = heard.length - new Set(heard).size
  const gaps = Array.from({ length: COUNT }, (_, n) => n).filter((n) => !heard.includes(n)).slice(0, 10)
  assert.deepEqual({ doubles, gaps, resyncs }, { doubles: 0, gaps: [], resyncs: 0 }, `seed ${seed}`)
  assert.deepEqual(heard, heard.toSorted((a, b) => a - b), 'in the order in which they were published')
  assert.ok(opened > lost, `the page came back: ${opened} connections after ${lost} were lost`)
})
