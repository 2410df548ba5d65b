// Receives pushed crossings, once for each Idempotency-Key. A clip whose name begins with "dark" does not show anything:
// the flow then puts the event back, and another clip can be bound.
//
//   node examples/lane-change/receiver.mjs [--port 9099]
//
// GET /lane-changes: what was received, with how often each part came.

import http from 'node:http'
import { parseArgs } from 'node:util'

const { values: options } = parseArgs({ options: { port: { type: 'string', default: '9099' } } })
const received = new Map()

function answer(response, status, body) {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}

http.createServer((request, response) => {
  const chunks = []
  request.on('data', chunk => chunks.push(chunk))
  request.on('end', () => {
    if (request.method === 'GET') return answer(response, 200, [...received.values()])
    const key = request.headers['idempotency-key']
    const part = JSON.parse(Buffer.concat(chunks).toString())
    if (part.part === 'clip' && part.video_file_id.startsWith('dark')) return answer(response, 422, { reason: 'moment_not_in_clip' })
    const known = received.get(key) ?? { key, part, times: 0 }
    known.times += 1
    received.set(key, known)
    answer(response, 200, { received: key })
  })
}).listen(Number(options.port), '127.0.0.1', () => console.log(`receiver on http://127.0.0.1:${options.port}`))
