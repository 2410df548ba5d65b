// A page that reports crossings, and does it once whatever happens: a reply that is lost, a reload in the middle, a
// network that is gone for a while. All of that is in `keys.invoke` and `keys.resume`; the rest shows what goes on.

import { createContext, invoke, keyStore, OncehostError } from '@oncehost/sdk'

const $ = (/** @type {string} */ id) => /** @type {HTMLElement} */ (document.getElementById(id))
const host = new URLSearchParams(location.search).get('host') ?? 'http://127.0.0.1:7070'
let losing = false

const ctx = createContext({
  baseUrl: host,
  // Whoever is offline for an hour goes on after it.
  deadline: Infinity,
  backoff: { first: 200, longest: 5_000 },
  // The button cuts the line when the reply is on its way: the work is done, and this page does not know.
  fetch: async (url, init) => {
    const response = await fetch(url, init)
    if (losing && init.headers && 'idempotency-key' in init.headers) {
      lose(false)
      $('lost').textContent = `The reply to ${init.headers['idempotency-key']} was lost on purpose. It is asked for again, under the same key.`
      throw new TypeError('the reply was lost on purpose')
    }
    return response
  },
})
const keys = keyStore(localStorage)

/** @param {boolean} on */
function lose(on) {
  losing = on
  $('lose').setAttribute('aria-pressed', String(on))
}

/**
 * Shows how a report stands; gives a function that tells more.
 * @param {string} name
 */
function line(name) {
  const item = document.createElement('li')
  $('reports').prepend(item)
  return (/** @type {string} */ state, /** @type {string} */ text) => {
    item.dataset['state'] = state
    item.textContent = `${name}: ${text}`
  }
}

/**
 * Shows a report until it has an answer.
 * @param {string} name
 * @param {string} text
 * @param {() => Promise<unknown>} call
 */
async function follow(name, text, call) {
  const show = line(name)
  show('open', text)
  try {
    const { created } = /** @type {{ created: boolean }} */ (await call())
    show('done', created ? 'recorded' : 'was recorded before')
  } catch (error) {
    const known = error instanceof OncehostError
    show('refused', known ? `${error.code}: ${error.message}` : String(error))
  }
  await records()
}

/** A crossing of now. Its key is made of its facts, before the first try. */
function report(/** @type {string} */ vehicle, /** @type {string} */ region) {
  const crossed_at = new Date().toISOString()
  const event_key = `${crossed_at}:${vehicle}:${region}`
  const input = { event_key, crossed_at, obj_id: vehicle, region_id: region }
  return follow(event_key, 'is being reported', () =>
    keys.invoke(ctx, 'lane-change', 'lane-change.create-event', input, { idempotencyKey: `lane-change:${event_key}` }))
}

/** Goes on with what a page before this one began. */
function resume() {
  for (const intent of keys.unfinished()) {
    const name = intent.key.replace(/^lane-change:/, '')
    void follow(name, 'goes on where it was', () => keys.resume(ctx, intent))
  }
}

async function records() {
  const page = await invoke(ctx, 'lane-change', 'lane-change.list-events', { newest_first: true, limit: 100 }, { read: true })
  $('records').replaceChildren(...page.events.map(event => {
    const row = document.createElement('tr')
    row.dataset['key'] = event.event_key
    for (const text of [event.crossed_at, event.obj_id, event.region_id, event.status]) row.insertCell().textContent = text
    return row
  }))
}

$('report').addEventListener('submit', event => {
  event.preventDefault()
  const form = new FormData(/** @type {HTMLFormElement} */ (event.target))
  void report(String(form.get('vehicle')), String(form.get('region')))
})
$('lose').addEventListener('click', () => lose(!losing))
$('refresh').addEventListener('click', () => void records())
resume()
void records()
