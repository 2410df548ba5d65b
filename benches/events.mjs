// How many events a second: accepted one by one and in batches, and delivered from one plugin to another.
//   node benches/events.mjs BINARY [SECONDS]
// ONCEHOST_STORE=postgres://… has the same on Postgres.

import http from 'node:http'
import { host } from '../tests/browser/support/host.mjs'
import { given } from './given.mjs'

const { BINARY: binary, SECONDS: seconds } = given({ BINARY: 'target/release/oncehost', SECONDS: '5' })
const span = seconds * 1000

const files = {
  'say/plugin.json': '{ "id": "say", "version": "1.0.0", "permissions": ["notify:publish"] }',
  'say/handlers/say.ts': `
    export function handle(input: { at: number }) {
      const sent = notify.publish('said', input)
      if (!sent.ok) throw sent.error
      return null
    }`,
  'ear/plugin.json': `{ "id": "ear", "version": "1.0.0", "permissions": ["data:read", "data:write", "events:said", "events:sent"],
    "subscriptions": [ { "type": "said", "handler": "events/keep" }, { "type": "sent", "handler": "events/keep" } ] }`,
  'ear/schema.sql': 'CREATE TABLE heard (id TEXT PRIMARY KEY, type TEXT NOT NULL, late INTEGER NOT NULL);',
  'ear/events/keep.ts': `
    export function handle(event: any, ctx: any) {
      const late = Math.max(0, Date.now() - event.data.at)
      const made = store.createIfAbsent('heard', { id: ctx.idempotencyKey, type: event.type, late }, ['id'])
      if (!made.ok) throw made.error
    }`,
  'ear/handlers/count.ts': `
    export const config = { kind: 'read' }
    export function handle(input: { type: string }) {
      const found = store.count('heard', { type: { eq: input.type } })
      if (!found.ok) throw found.error
      return found.data.count
    }`,
  'ear/handlers/late.ts': `
    export const config = { kind: 'read' }
    export function handle(input: { type: string, share: number, count: number }) {
      // The least number of milliseconds that this share is not later than.
      let [low, high] = [0, 600_000]
      while (low < high) {
        const middle = Math.floor((low + high) / 2)
        const found = store.count('heard', { type: { eq: input.type }, late: { lte: middle } })
        if (!found.ok) throw found.error
        if (found.data.count >= input.count * input.share) high = middle
        else low = middle + 1
      }
      return low
    }`,
}

const server = await host(binary, files)
await server.start()
const agent = new http.Agent({ keepAlive: true, maxSockets: 64 })

function post(path, type, body) {
  return new Promise((answered, failed) => {
    const request = http.request(`${server.url}${path}`, { method: 'POST', agent, headers: { 'content-type': type } }, (response) => {
      let text = ''
      response.on('data', (part) => { text += part })
      response.on('end', () => (response.statusCode < 300 ? answered(JSON.parse(text)) : failed(new Error(text))))
    })
    request.on('error', failed)
    request.end(body)
  })
}

const ask = async (action, input) => (await post(`/plugins/ear/invoke/${action}`, 'application/json', JSON.stringify(input))).data

/** Has so many send one after the other for the time; gives how many a second. */
async function load(connections, each, send) {
  const end = Date.now() + span
  let count = 0
  const began = Date.now()
  await Promise.all(Array.from({ length: connections }, async () => {
    while (Date.now() < end) {
      await send()
      count += each
    }
  }))
  return Math.round((count * 1000) / (Date.now() - began))
}

let number = 0
const event = () => ({ specversion: '1.0', type: 'sent', source: 'bench', id: String(number++), data: { at: Date.now() } })
const drained = async (type, wanted) => {
  const began = Date.now()
  while ((await ask('count', { type })) < wanted) await new Promise((next) => setTimeout(next, 5))
  return Date.now() - began
}

try {
  for (const connections of [1, 16, 64]) {
    const rate = await load(connections, 1, () => post('/events', 'application/cloudevents+json', JSON.stringify(event())))
    console.log(`accepted one by one, ${connections} connections: ${rate}/s; the rest delivered ${await drained('sent', number)} ms after the last`)
  }
  const batch = () => JSON.stringify(Array.from({ length: 100 }, event))
  const began = Date.now()
  const before = number
  const rate = await load(4, 100, () => post('/events', 'application/cloudevents-batch+json', batch()))
  await drained('sent', number)
  console.log(`accepted in batches of 100, 4 connections: ${rate}/s; delivered end to end ${Math.round(((number - before) * 1000) / (Date.now() - began))}/s`)
  let said = 0
  for (const connections of [1, 16]) {
    const rate = await load(connections, 1, () => {
      said += 1
      return post('/plugins/say/invoke/say', 'application/json', JSON.stringify({ at: Date.now() }))
    })
    await drained('said', said)
    const late = (share) => ask('late', { type: 'said', share, count: said })
    console.log(`published by ${connections}: ${rate}/s; from the call to the delivery p50 ${await late(0.5)} ms, p99 ${await late(0.99)} ms (of all so far)`)
  }
} finally {
  agent.destroy()
  await server.end()
}
