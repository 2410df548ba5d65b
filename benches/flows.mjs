// Workflows: how many finish a second, how soon the first step begins, and what sleepers cost.
//   node benches/flows.mjs BINARY [SECONDS]
// ONCEHOST_STORE=postgres://… has the same on Postgres.

import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import http from 'node:http'
import { host } from '../tests/browser/support/host.mjs'
import { given } from './given.mjs'

const { BINARY: binary, SECONDS: seconds } = given({ BINARY: 'target/release/oncehost', SECONDS: '5' })
const span = seconds * 1000
const SLEEPERS = 10_000

/** Three steps, one after the other. */
const chain = (name, uses, target) => JSON.stringify({
  name,
  job: { seed: ['at'] },
  steps: ['one', 'two', 'three'].map((id) => ({
    id, uses, inputs: { [uses]: { const: target }, at: { from: 'trigger.at' }, step: { const: id } },
  })),
})

/** A service elsewhere: it answers after a while. */
const service = http.createServer((_, response) => setTimeout(() => response.end('{}'), 20)).listen(0, '127.0.0.1')
await once(service, 'listening')
const elsewhere = `127.0.0.1:${service.address().port}`

const files = {
  'work/plugin.json': JSON.stringify({
    id: 'work',
    version: '1.0.0',
    permissions: ['data:read', 'data:write', 'flow:start', `http:${elsewhere}`],
    limits: { handler: '60s' },
  }),
  'work/schema.sql': 'CREATE TABLE done (id TEXT PRIMARY KEY, step TEXT NOT NULL); CREATE TABLE begun (id TEXT PRIMARY KEY, late INTEGER NOT NULL);',
  'work/handlers/start.ts': `
    export function handle(input: { flow: string, id: string }) {
      const started = flow.start(input.flow, input.id, { at: Date.now() })
      if (!started.ok) throw started.error
      return started.data.workflowId
    }`,
  'work/handlers/nothing.ts': 'export function handle() { return null }',
  'work/handlers/row.ts': `
    export function handle(input: { step: string }, ctx: any) {
      const made = store.createIfAbsent('done', { id: ctx.idempotencyKey, step: input.step }, ['id'])
      if (!made.ok) throw made.error
      return null
    }`,
  'work/handlers/late.ts': `
    export function handle(input: { at: number, step: string }, ctx: any) {
      if (input.step !== 'one') return null
      const made = store.createIfAbsent('begun', { id: ctx.idempotencyKey, late: Date.now() - input.at }, ['id'])
      if (!made.ok) throw made.error
      return null
    }`,
  'work/handlers/lateness.ts': `
    export const config = { kind: 'read' }
    export function handle(input: { share: number, count: number }) {
      let [low, high] = [0, 60_000]
      while (low < high) {
        const middle = Math.floor((low + high) / 2)
        const found = store.count('begun', { late: { lte: middle } })
        if (!found.ok) throw found.error
        if (found.data.count >= input.count * input.share) high = middle
        else low = middle + 1
      }
      return low
    }`,
  'work/handlers/many.ts': `
    export function handle(input: { from: number, count: number }) {
      for (let n = input.from; n < input.from + input.count; n += 1) {
        const started = flow.start('nap', String(n))
        if (!started.ok) throw started.error
      }
    }`,
  'work/scripts/nothing.ts': 'export function handle() { return null }',
  'work/scripts/call.ts': `export async function handle() { return (await fetch('http://${elsewhere}/')).json() }`,
  'work/flows/rows.json': chain('rows', 'action', 'row'),
  'work/flows/actions.json': chain('actions', 'action', 'nothing'),
  'work/flows/scripts.json': chain('scripts', 'script', 'nothing'),
  'work/flows/calls.json': chain('calls', 'script', 'call'),
  'work/flows/late.json': chain('late', 'action', 'late'),
  'work/flows/nap.json': '{ "name": "nap", "steps": [ { "id": "nap", "uses": "sleep", "for": "30d" } ] }',
}

const server = await host(binary, files)
await server.start()
let agent = new http.Agent({ keepAlive: true, maxSockets: 64 })

function request(method, path, headers, body) {
  return new Promise((answered, failed) => {
    const request = http.request(`${server.url}${path}`, { method, agent, headers }, (response) => {
      let text = ''
      response.on('data', (part) => { text += part })
      response.on('end', () => (response.statusCode < 300 ? answered(text) : failed(new Error(text))))
    })
    request.on('error', failed)
    request.end(body)
  })
}

const call = (action, key, input) => {
  const headers = { 'content-type': 'application/json', ...(key ? { 'idempotency-key': key } : {}) }
  return request('POST', `/plugins/work/invoke/${action}`, headers, JSON.stringify(input))
}

/** Workflows that have completed since the host began. */
async function completed() {
  const line = (await request('GET', '/metrics')).split('\n').find((it) => it.startsWith('oncehost_workflows_total') && it.includes('"completed"'))
  return line ? Number(line.split(' ').at(-1)) : 0
}

let number = 0
/** Has so many start workflows one after the other for the time; gives how many finished a second until the last had. */
async function load(flow, starters) {
  const before = await completed()
  const [began, { ticks }] = [Date.now(), usage()]
  let started = 0
  await Promise.all(Array.from({ length: starters }, async () => {
    while (Date.now() < began + span) {
      const id = String(number++)
      await call('start', `${flow}-${id}`, { flow, id })
      started += 1
    }
  }))
  const rest = Date.now()
  while ((await completed()) < before + started) await new Promise((next) => setTimeout(next, 5))
  const cost = Math.round(((usage().ticks - ticks) * 10_000) / started)
  return { rate: Math.round((started * 1000) / (Date.now() - began)), rest: Date.now() - rest, started, cost }
}

/** Ticks (hundredths of a second) of processor time, and MiB in use. */
function usage() {
  const stat = readFileSync(`/proc/${server.pid}/stat`, 'utf8').split(') ')[1].split(' ')
  const status = readFileSync(`/proc/${server.pid}/status`, 'utf8')
  return { ticks: Number(stat[11]) + Number(stat[12]), mib: Math.round(Number(/VmRSS:\s+(\d+)/.exec(status)[1]) / 1024) }
}

try {
  for (const flow of ['rows', 'actions', 'scripts', 'calls']) {
    for (const starters of [1, 16, 64]) {
      const { rate, rest, cost } = await load(flow, starters)
      console.log(`three steps (${flow}), ${starters} starters: ${rate} finished/s, ${cost} µs of a processor each; the last ${rest} ms after the last start`)
    }
  }
  for (const starters of [1, 16]) {
    const { started } = await load('late', starters)
    const late = async (share) => JSON.parse(await call('lateness', undefined, { share, count: started })).data
    console.log(`from the start's call, its commit included, to the first step's begin, ${starters} starters: p50 ${await late(0.5)} ms, p99 ${await late(0.99)} ms (of all so far)`)
  }
  const idle = usage().mib
  for (let from = 0; from < SLEEPERS; from += 1000) await call('many', undefined, { from, count: 1000 })
  agent.destroy()
  await server.kill()
  agent = new http.Agent({ keepAlive: true, maxSockets: 64 })
  const began = Date.now()
  await server.start()
  console.log(`${SLEEPERS} sleepers: ${Date.now() - began} ms from the start of the process to ready`)
  await call('nothing', undefined, {})
  await new Promise((next) => setTimeout(next, 2000))
  const before = usage()
  await new Promise((next) => setTimeout(next, 10_000))
  const after = usage()
  console.log(`${SLEEPERS} sleepers: ${after.mib} MiB in use (${idle} MiB before the restart), ${((after.ticks - before.ticks) / 10).toFixed(1)} % of a processor while nothing is due`)
} finally {
  agent.destroy()
  service.close()
  service.closeAllConnections()
  await server.end()
}
