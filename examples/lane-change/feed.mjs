// Feeds the crossings into a running host as cameras on a bad network would: several at a time, replies lost on
// purpose, every lost one sent again under the same key. Ends with a count of records: one for each crossing.
//
//   node examples/lane-change/feed.mjs [--url http://127.0.0.1:7070] [--file crossings.ndjson]
//     [--lose 0.2] [--seed 1] [--concurrency 8]
//
// Exits with 0 when there is one record for each distinct crossing, with 1 otherwise.

import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import http from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'
import { parseArgs } from 'node:util'

const { values: options } = parseArgs({
  options: {
    url: { type: 'string', default: 'http://127.0.0.1:7070' },
    file: { type: 'string', default: new URL('crossings.ndjson', import.meta.url).pathname },
    lose: { type: 'string', default: '0.2' },
    seed: { type: 'string', default: '1' },
    concurrency: { type: 'string', default: '8' },
  },
})
const losses = Number(options.lose)
const TRIES = 12
const RETRYABLE = new Set([409, 429, 502, 503, 504])
const agent = new http.Agent({ keepAlive: true })
const count = { requests: 0, lost: 0, retries: 0, replayed: 0 }

/** The same parts give the same number in [0, 1), so a run can be repeated whatever order its calls end in. */
function chance(...parts) {
  return createHash('sha256').update([options.seed, ...parts].join('\0')).digest().readUInt32BE() / 2 ** 32
}

/** The facts that make a crossing this one and no other. A report that is sent again has the same. */
function eventKey({ crossed_at, obj_id, region_id }) {
  return `${crossed_at}:${obj_id}:${region_id}`
}

/**
 * One try of a call. `lose` cuts the line on purpose: 'sent' as soon as the request is out, so that it may or may
 * not have arrived; 'answered' when the reply begins to come in, so that the work is surely done.
 */
function attempt(action, body, key, lose) {
  count.requests += 1
  return new Promise((resolve, reject) => {
    const headers = { 'content-type': 'application/json' }
    if (key !== undefined) headers['idempotency-key'] = `"${key.replace(/["\\]/g, '\\$&')}"`
    const request = http.request(`${options.url}/plugins/lane-change/invoke/${action}`, { method: 'POST', headers, agent })
    const cut = () => {
      count.lost += 1
      request.destroy(new Error('the reply was lost on purpose'))
    }
    request.on('error', reject)
    request.on('response', response => {
      if (lose === 'answered') return cut()
      const chunks = []
      response.on('error', reject)
      response.on('data', chunk => chunks.push(chunk))
      response.on('end', () => resolve({ response, text: Buffer.concat(chunks).toString() }))
    })
    if (lose === 'sent') request.on('finish', cut)
    request.end(JSON.stringify(body))
  })
}

/** Milliseconds to wait before the next try: what the host asks for, or twice as long each time, with jitter. */
function delay(tried, retryAfter) {
  if (retryAfter !== undefined) {
    const seconds = Number(retryAfter)
    return Math.max(0, Number.isNaN(seconds) ? Date.parse(retryAfter) - Date.now() : seconds * 1000)
  }
  return Math.min(2000, 20 * 2 ** tried) * (0.5 + Math.random() / 2)
}

/** Calls an action until it answers. The key is made once, before the first try, and never changes. */
async function call(action, body, key, losing = () => undefined) {
  for (let tried = 1; ; tried += 1) {
    let retryAfter
    let problem
    try {
      const { response, text } = await attempt(action, body, key, losing(tried))
      if (response.statusCode === 200) {
        if (response.headers['idempotent-replayed'] === 'true') count.replayed += 1
        return JSON.parse(text).data
      }
      problem = new Error(`${action} answered ${response.statusCode}: ${text}`)
      if (!RETRYABLE.has(response.statusCode) || JSON.parse(text).retryable === false) throw problem
      retryAfter = response.headers['retry-after']
    } catch (error) {
      if (error === problem) throw error
      problem = error
    }
    if (tried === TRIES) throw problem
    count.retries += 1
    await pause(delay(tried, retryAfter))
  }
}

/** Sends one line of the file, and notes the id that the host gave its crossing. */
async function report(crossing, line) {
  const key = eventKey(crossing)
  const losing = tried => {
    const luck = chance(line, tried)
    if (luck >= losses) return undefined
    return luck < losses / 2 ? 'sent' : 'answered'
  }
  const input = { event_key: key, ...crossing }
  const { event_id } = await call('lane-change.create-event', input, `lane-change:${key}`, losing)
  const known = ids.get(key) ?? event_id
  if (known !== event_id) throw new Error(`${key} is ${known} and also ${event_id}`)
  ids.set(key, event_id)
}

/** All events of the host, page by page, as how many records each event key has. */
async function recordsByKey() {
  const records = new Map()
  let cursor
  do {
    const page = await call('lane-change.list-events', cursor === undefined ? { limit: 250 } : { limit: 250, cursor })
    for (const { event_key } of page.events) records.set(event_key, (records.get(event_key) ?? 0) + 1)
    cursor = page.next_cursor ?? undefined
  } while (cursor !== undefined)
  return records
}

const crossings = readFileSync(options.file, 'utf8').trim().split('\n').map(line => JSON.parse(line))
const ids = new Map()
let next = 0
let failure
async function worker() {
  while (next < crossings.length && failure === undefined) {
    const line = next++
    await report(crossings[line], line).catch(error => { failure ??= error })
  }
}
await Promise.all(Array.from({ length: Number(options.concurrency) }, worker))
if (failure !== undefined) {
  console.error(`feed: ${failure.message || failure.code}`)
  process.exit(1)
}

const distinct = new Set(crossings.map(eventKey))
const records = await recordsByKey()
agent.destroy()
const wrong = [...distinct].filter(key => records.get(key) !== 1)
const others = [...records.keys()].filter(key => !distinct.has(key)).length
console.log(`${crossings.length} lines, ${distinct.size} distinct crossings`)
console.log(`${count.requests} requests, ${count.lost} replies lost on purpose, ${count.retries} retries, ${count.replayed} replies replayed`)
if (wrong.length > 0) {
  for (const key of wrong.slice(0, 10)) console.error(`feed: ${key} has ${records.get(key) ?? 0} records`)
  console.error(`feed: ${wrong.length} of ${distinct.size} crossings do not have one record`)
  process.exit(1)
}
console.log(`one record for each crossing${others > 0 ? `, and ${others} of others` : ''}`)
