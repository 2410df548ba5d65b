// The example page in real Chromium, against the real host: whatever happens to a report, there is one record of it.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { serve } from '../../examples/lane-change-web/serve.mjs'
import { host } from '../../sdk-ts/tests/support/host.mjs'
import { browser } from './chromium.mjs'

const CREATE = '**/invoke/lane-change.create-event'

/** A host, the page, and what the page sends. */
async function open(t) {
  const { server, url: origin } = await serve()
  t.after(() => { server.closeAllConnections(); server.close() })
  const { url } = await host(t, { env: { ONCEHOST_ORIGINS: origin } })
  const context = await browser(t)
  const keys = []
  context.on('request', request => {
    if (request.method() === 'POST' && request.url().endsWith('create-event')) keys.push(request.headers()['idempotency-key'])
  })
  const address = `${origin}/?host=${encodeURIComponent(url)}`
  const tab = async () => {
    const page = await context.newPage()
    await page.goto(address)
    return page
  }
  return { context, keys, tab, page: await tab() }
}

const report = page => page.getByRole('button', { name: 'Report a crossing' }).click()
const state = (page, name) => page.locator(`#reports li[data-state="${name}"]`)
const records = page => page.locator('#records tr')

/** The page after a new look at the host's records. */
async function recordKeys(page) {
  await page.getByRole('button', { name: 'Look again' }).click()
  return records(page).evaluateAll(rows => rows.map(row => row.dataset.key))
}

test('a report is recorded', async t => {
  const { page, keys } = await open(t)
  await report(page)
  await state(page, 'done').waitFor()
  await records(page).waitFor()
  assert.equal(await records(page).count(), 1)
  assert.match(keys[0], /^"lane-change:\d{4}-.*:v-17:r-bridge"$/)
  assert.equal(await page.evaluate(() => localStorage.length), 0)
})

test('a lost reply is asked for again under the same key', async t => {
  const { page, keys } = await open(t)
  await page.getByRole('button', { name: 'Lose the next reply' }).click()
  await report(page)
  await state(page, 'done').waitFor()
  assert.equal(keys.length, 2)
  assert.equal(keys[0], keys[1])
  assert.ok((await page.getByRole('status').textContent()).includes(keys[0]), 'the page says what was lost')
  assert.equal(await state(page, 'done').textContent().then(text => text.endsWith(': recorded')), true)
  assert.equal((await recordKeys(page)).length, 1)
})

test('a page that is reloaded in flight goes on with the same key', async t => {
  const { page, keys, context } = await open(t)
  // The request gets to the host, and its reply never to the page.
  let done
  const doing = new Promise(resolve => { done = resolve })
  await context.route(CREATE, async route => { await route.fetch(); done() }, { times: 1 })
  await report(page)
  await doing
  assert.equal(await page.evaluate(() => localStorage.length), 1)
  await page.reload()
  await state(page, 'done').waitFor()
  assert.ok(keys.length >= 2 && new Set(keys).size === 1, String(keys))
  assert.equal((await recordKeys(page)).length, 1)
  assert.equal(await page.evaluate(() => localStorage.length), 0)
})

test('a page that was offline goes on when it is online', async t => {
  const { page, context } = await open(t)
  await context.setOffline(true)
  await report(page)
  await state(page, 'open').waitFor()
  await context.setOffline(false)
  await state(page, 'done').waitFor()
  assert.equal((await recordKeys(page)).length, 1)
})

test('what a closed page could not get through, the next one does once', async t => {
  const { page, context, keys, tab } = await open(t)
  await context.route(CREATE, route => route.abort())
  await report(page)
  await state(page, 'open').waitFor()
  await page.close()
  await context.unroute(CREATE)
  const next = await tab()
  await state(next, 'done').waitFor()
  assert.equal(new Set(keys).size, 1)
  assert.equal((await recordKeys(next)).length, 1)
})

test('a second tab does not use the key of an unfinished report for another', async t => {
  const { page, context, keys, tab } = await open(t)
  let held, letGo
  const holding = new Promise(resolve => { held = resolve })
  const released = new Promise(resolve => { letGo = resolve })
  await context.route(CREATE, async route => { held(); await released; await route.continue() }, { times: 1 })
  await report(page)
  await holding
  const second = await tab()
  await report(second)
  await state(second, 'done').waitFor()
  letGo()
  await state(page, 'done').waitFor()
  // The second tab found the first one's report unfinished, and waited for it.
  await second.waitForFunction(() => document.querySelectorAll('#reports li[data-state="done"]').length === 2)
  assert.equal(new Set(keys).size, 2, String(keys))
  const found = await recordKeys(page)
  assert.equal(new Set(found).size, 2)
  assert.equal(found.length, 2)
})
