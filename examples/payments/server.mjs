// A small payment service that charges once for each Idempotency-Key, as real ones do. It loses answers on purpose: the
// charge is made and the line is cut, so that the caller does not know.
//
//   node examples/payments/server.mjs [--port 9098] [--lose 0.3]
//
// POST /charges {reference, customer, amount_cents}: 200 {charge_id}; 402 for a customer named "broke"; 422 for a key that
// comes with another body. GET /charges: all charges, and how often each was asked for.

import { createHash } from 'node:crypto'
import http from 'node:http'
import { parseArgs } from 'node:util'

const { values: options } = parseArgs({
  options: { port: { type: 'string', default: '9098' }, lose: { type: 'string', default: '0.3' } },
})
const charges = new Map()

function answer(response, status, body) {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}

function charge(request, response, body) {
  const key = request.headers['idempotency-key']
  if (typeof key !== 'string' || key === '') return answer(response, 400, { error: 'send an Idempotency-Key' })
  const known = charges.get(key)
  if (known !== undefined && known.body !== body) return answer(response, 422, { error: 'key of another charge' })
  const made = known ?? { key, body, charge_id: `ch_${charges.size + 1}`, asked: 0, ...JSON.parse(body) }
  charges.set(key, made)
  made.asked += 1
  const chance = createHash('sha256').update(`${key} ${made.asked}`).digest().readUInt32BE() / 2 ** 32
  if (chance < Number(options.lose)) return response.destroy()
  if (made.customer === 'broke') return answer(response, 402, { error: 'declined' })
  answer(response, 200, { charge_id: made.charge_id })
}

http.createServer((request, response) => {
  const chunks = []
  request.on('data', chunk => chunks.push(chunk))
  request.on('end', () => {
    if (request.method === 'POST' && request.url === '/charges') return charge(request, response, Buffer.concat(chunks).toString())
    if (request.method === 'GET' && request.url === '/charges') return answer(response, 200, [...charges.values()])
    answer(response, 404, { error: 'there is POST /charges and GET /charges' })
  })
}).listen(Number(options.port), '127.0.0.1', () => console.log(`payments on http://127.0.0.1:${options.port}`))
