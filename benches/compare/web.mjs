// What the hand-written services share: the HTTP side in Fastify, and the request's hash.
import { createHash } from 'node:crypto'
import Fastify from 'fastify'

/** JSON with sorted members, so that their order does not matter to the hash. */
function canonical(value) {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`
  if (value === null || typeof value !== 'object') return JSON.stringify(value)
  return `{${Object.keys(value)
    .sort()
    .map((name) => `${JSON.stringify(name)}:${canonical(value[name])}`)
    .join(',')}}`
}

/** SHA-256 over the input, less when it was sent. */
export function hashOf(input) {
  return createHash('sha256').update(canonical({ ...input, sent_at: undefined })).digest()
}

/** The reply to a request whose key has a record. */
export function recorded(record, hash) {
  return record.request_hash.equals(hash)
    ? { status: 200, replayed: true, body: record.reply }
    : { status: 422, body: '{"error":"KEY_REUSED"}' }
}

const text = { type: 'string', minLength: 1, maxLength: 500, pattern: '^[^\\u0000]*$' }
const schema = {
  body: {
    type: 'object',
    required: ['event_key', 'crossed_at', 'obj_id', 'region_id'],
    properties: {
      event_key: text,
      crossed_at: { type: 'string', format: 'date-time' },
      obj_id: text,
      region_id: text,
      camera_id: text,
      from_lane: { type: 'integer' },
      to_lane: { type: 'integer' },
      speed_kmh: { type: 'number', minimum: 0 },
    },
  },
}

/**
 * Serves the two actions. `create({ tenant, key, input })` gives `{ status, body, replayed }`; `page(tenant, region, at, id,
 * limit)` gives the rows behind a position.
 */
export async function serve(port, { create, page }) {
  const app = Fastify({ logger: false })
  app.post('/plugins/lane-change/invoke/lane-change.create-event', { schema }, async (request, reply) => {
    const key = request.headers['idempotency-key']?.replace(/^"(.*)"$/, '$1')
    if (!key) return reply.code(400).send({ error: 'KEY_REQUIRED' })
    const done = await create({ tenant: request.headers['x-tenant-id'] ?? 'dev', key, input: request.body })
    if (done.replayed) reply.header('idempotent-replayed', 'true')
    return reply.code(done.status).type('application/json').send(done.body)
  })
  app.post('/plugins/lane-change/invoke/lane-change.list-events', async (request, reply) => {
    const { region_id, limit = 100, cursor } = request.body
    const [at, id] = cursor ? JSON.parse(cursor) : ['', '']
    const events = await page(request.headers['x-tenant-id'] ?? 'dev', region_id, at, id, limit)
    const last = events.at(-1)
    const next_cursor = events.length === limit ? JSON.stringify([last.crossed_at, last.id]) : null
    return reply.send({ code: 0, data: { events, next_cursor } })
  })
  await app.listen({ port: Number(port), host: '127.0.0.1' })
}
