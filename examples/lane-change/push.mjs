// Binds a clip that shows nothing, waits until the flow has put the event back, and binds a second one.
//
//   node examples/lane-change/receiver.mjs &
//   node examples/lane-change/push.mjs [--url http://127.0.0.1:7070] [--receiver http://127.0.0.1:9099]

import { setTimeout as pause } from 'node:timers/promises'
import { parseArgs } from 'node:util'

const { values: options } = parseArgs({
  options: {
    url: { type: 'string', default: 'http://127.0.0.1:7070' },
    receiver: { type: 'string', default: 'http://127.0.0.1:9099' },
  },
})
const LIMIT = 60_000

async function call(action, input, key) {
  const headers = { 'content-type': 'application/json', ...(key && { 'idempotency-key': key }) }
  const url = `${options.url}/plugins/lane-change/invoke/lane-change.${action}`
  const response = await fetch(url, { method: 'POST', headers, body: JSON.stringify(input) })
  return { status: response.status, ...await response.json() }
}

async function until(event_id, status) {
  for (const end = Date.now() + LIMIT; ; await pause(50)) {
    const { data } = await call('get-event', { event_id })
    if (data.status === status) return
    if (Date.now() > end) throw new Error(`the event is ${data.status}, not ${status}`)
  }
}

function same(got, want, what) {
  if (JSON.stringify(got) !== JSON.stringify(want)) throw new Error(`${what}: ${JSON.stringify(got)}, not ${JSON.stringify(want)}`)
}

const crossing = { event_key: 'push-1', crossed_at: '2026-03-02T08:00:00.000Z', obj_id: 'car-1', region_id: 'r-1' }
const { event_id } = (await call('create-event', crossing, 'push-create')).data
const bind = (video_file_id, key) => call('bind-video', { event_id, video_file_id }, key)
same((await bind('dark-1', 'push-bind-1')).data.bound, true, 'the first clip binds')
await until(event_id, 'pending_video')
same((await bind('dark-1', 'push-bind-2')).error, 'CLIP_REFUSED', 'the same clip again is refused')
const { workflow_id } = (await bind('clear-2', 'push-bind-3')).data
await until(event_id, 'pushed')
const received = (await (await fetch(`${options.receiver}/lane-changes`)).json()).filter(({ key }) => key.startsWith(workflow_id))
same(received.map(({ key, part }) => [key, part.part]), [[`${workflow_id}:push:0`, 'crossing'], [`${workflow_id}:push:1`, 'clip']], 'parts and their keys')
console.log(`${workflow_id} pushed ${received.length} parts, after the first clip was put back`)
