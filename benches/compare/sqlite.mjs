// The lane-change plugin's create-event as a careful engineer would write it by hand: Fastify and better-sqlite3.
// The same work with the same durability: the key's record with the request's hash and the reply, the business row if
// it is absent, the outbox row, one transaction, on disk before the reply.
//
//   node sqlite.mjs --commit one|group --data FILE --port PORT
//
// `one`: a transaction a request. `group`: what came in while the last commit ran shares the next, a savepoint each.
import { randomUUID } from 'node:crypto'
import { parseArgs } from 'node:util'
import Database from 'better-sqlite3'
import { hashOf, recorded, serve } from './web.mjs'

const { values: options } = parseArgs({
  options: { commit: { type: 'string' }, data: { type: 'string' }, port: { type: 'string' } },
})
if (!['one', 'group'].includes(options.commit) || !options.data || !options.port) {
  console.error('usage: node sqlite.mjs --commit one|group --data FILE --port PORT')
  process.exit(2)
}

const db = new Database(options.data)
db.pragma('journal_mode = WAL')
db.pragma('synchronous = FULL')
db.exec(`
  CREATE TABLE IF NOT EXISTS event (
    tenant TEXT NOT NULL, id TEXT NOT NULL, event_key TEXT NOT NULL, crossed_at TEXT NOT NULL, obj_id TEXT NOT NULL,
    region_id TEXT NOT NULL, camera_id TEXT, from_lane INTEGER, to_lane INTEGER, speed_kmh REAL,
    status TEXT NOT NULL DEFAULT 'pending_video', video_file_id TEXT, created_at TEXT NOT NULL, updated_at TEXT NOT NULL,
    PRIMARY KEY (tenant, id), UNIQUE (tenant, event_key)
  ) STRICT;
  CREATE INDEX IF NOT EXISTS event_by_time ON event (tenant, crossed_at);
  CREATE INDEX IF NOT EXISTS event_by_region ON event (tenant, region_id, crossed_at);
  CREATE INDEX IF NOT EXISTS event_by_status ON event (tenant, status, crossed_at);
  CREATE TABLE IF NOT EXISTS idempotency (
    id INTEGER PRIMARY KEY, tenant TEXT NOT NULL, operation TEXT NOT NULL, key TEXT NOT NULL, request_hash BLOB NOT NULL,
    reply TEXT NOT NULL, committed_at INTEGER NOT NULL, UNIQUE (tenant, operation, key)
  ) STRICT;
  CREATE TABLE IF NOT EXISTS outbox (
    id INTEGER PRIMARY KEY, event_id TEXT NOT NULL UNIQUE, tenant TEXT NOT NULL, topic TEXT NOT NULL, subject TEXT,
    payload TEXT NOT NULL, published_at INTEGER NOT NULL
  ) STRICT;
`)
const sql = {
  record: db.prepare('SELECT request_hash, reply FROM idempotency WHERE tenant = ? AND operation = ? AND key = ?'),
  keep: db.prepare(
    'INSERT INTO idempotency (tenant, operation, key, request_hash, reply, committed_at) VALUES (?, ?, ?, ?, ?, ?)',
  ),
  insert: db.prepare(
    `INSERT INTO event (tenant, id, event_key, crossed_at, obj_id, region_id, camera_id, from_lane, to_lane, speed_kmh,
       created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (tenant, event_key) DO NOTHING`,
  ),
  byKey: db.prepare('SELECT * FROM event WHERE tenant = ? AND event_key = ?'),
  publish: db.prepare(
    'INSERT INTO outbox (event_id, tenant, topic, subject, payload, published_at) VALUES (?, ?, ?, ?, ?, ?)',
  ),
  page: db.prepare(
    `SELECT * FROM event WHERE tenant = ? AND region_id = ? AND (crossed_at, id) > (?, ?) ORDER BY crossed_at, id LIMIT ?`,
  ),
}

/** One request inside a transaction: replay, refuse, or do and record. */
function createEvent({ tenant, key, input }) {
  const hash = hashOf(input)
  const record = sql.record.get(tenant, 'create-event', key)
  if (record) return recorded(record, hash)
  const now = new Date()
  const iso = now.toISOString()
  const id = randomUUID()
  const { event_key, crossed_at, obj_id, region_id, camera_id, from_lane, to_lane, speed_kmh } = input
  const at = new Date(crossed_at).toISOString()
  const created = sql.insert.run(
    tenant, id, event_key, at, obj_id, region_id, camera_id ?? null, from_lane ?? null, to_lane ?? null,
    speed_kmh ?? null, iso, iso,
  ).changes === 1
  const row = sql.byKey.get(tenant, event_key)
  if (created) {
    const payload = JSON.stringify({ event_id: row.id, event_key, crossed_at: at, obj_id, region_id })
    sql.publish.run(randomUUID(), tenant, 'lane-change.event-created', row.id, payload, now.getTime())
  }
  const body = JSON.stringify({ code: 0, data: { event_id: row.id, created, status: row.status } })
  sql.keep.run(tenant, 'create-event', key, hash, body, now.getTime())
  return { status: 200, body }
}

const alone = db.transaction(createEvent).immediate
const waiting = []

/** What waits, in one transaction; each in a savepoint (a nested transaction is one in better-sqlite3). */
function commitGroup() {
  const group = waiting.splice(0)
  const nested = db.transaction(createEvent)
  let done
  try {
    done = db
      .transaction(() =>
        group.map(({ call }) => {
          try {
            return { reply: nested(call) }
          } catch (error) {
            return { error }
          }
        }),
      )
      .immediate()
  } catch (error) {
    for (const { reject } of group) reject(error)
    return
  }
  done.forEach(({ reply, error }, index) => (error ? group[index].reject(error) : group[index].resolve(reply)))
}

const inGroup = (call) =>
  new Promise((resolve, reject) => {
    if (waiting.length === 0) setImmediate(commitGroup)
    waiting.push({ call, resolve, reject })
  })

await serve(options.port, {
  create: options.commit === 'one' ? alone : inGroup,
  page: (...position) => sql.page.all(...position),
})
