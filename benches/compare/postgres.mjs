// The same as sqlite.mjs on Postgres, by hand: Fastify and pg, as many connections as there are callers at most.
//
//   node postgres.mjs --call steps|function --url postgres://… --port PORT
//
// `steps`: BEGIN … COMMIT, a statement each. `function`: all of it in one call of a plpgsql function.
import { randomUUID } from 'node:crypto'
import { parseArgs } from 'node:util'
import pg from 'pg'
import { hashOf, recorded, serve } from './web.mjs'

const { values: options } = parseArgs({
  options: { call: { type: 'string' }, url: { type: 'string' }, port: { type: 'string' } },
})
if (!['steps', 'function'].includes(options.call) || !options.url || !options.port) {
  console.error('usage: node postgres.mjs --call steps|function --url URL --port PORT')
  process.exit(2)
}

const pool = new pg.Pool({ connectionString: options.url, max: 32 })
await pool.query(`
  CREATE TABLE IF NOT EXISTS event (
    tenant TEXT COLLATE "C" NOT NULL, id TEXT COLLATE "C" NOT NULL, event_key TEXT COLLATE "C" NOT NULL,
    crossed_at TIMESTAMPTZ(3) NOT NULL, obj_id TEXT NOT NULL, region_id TEXT COLLATE "C" NOT NULL, camera_id TEXT,
    from_lane BIGINT, to_lane BIGINT, speed_kmh DOUBLE PRECISION, status TEXT NOT NULL DEFAULT 'pending_video',
    video_file_id TEXT, created_at TIMESTAMPTZ(3) NOT NULL, updated_at TIMESTAMPTZ(3) NOT NULL,
    PRIMARY KEY (tenant, id), UNIQUE (tenant, event_key)
  );
  CREATE INDEX IF NOT EXISTS event_by_time ON event (tenant, crossed_at);
  CREATE INDEX IF NOT EXISTS event_by_region ON event (tenant, region_id, crossed_at);
  CREATE INDEX IF NOT EXISTS event_by_status ON event (tenant, status, crossed_at);
  CREATE TABLE IF NOT EXISTS idempotency (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, tenant TEXT NOT NULL, operation TEXT NOT NULL,
    key TEXT COLLATE "C" NOT NULL, request_hash BYTEA NOT NULL, reply TEXT NOT NULL, committed_at BIGINT NOT NULL,
    UNIQUE (tenant, operation, key)
  );
  CREATE TABLE IF NOT EXISTS outbox (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, event_id TEXT NOT NULL UNIQUE, tenant TEXT NOT NULL,
    topic TEXT NOT NULL, subject TEXT, payload TEXT NOT NULL, published_at BIGINT NOT NULL
  );
  CREATE OR REPLACE FUNCTION create_event(
    p_tenant TEXT, p_key TEXT, p_hash BYTEA, p_id TEXT, p_event_id TEXT, p_event_key TEXT, p_crossed_at TIMESTAMPTZ,
    p_obj_id TEXT, p_region_id TEXT, p_camera_id TEXT, p_from_lane BIGINT, p_to_lane BIGINT, p_speed DOUBLE PRECISION,
    p_payload TEXT, p_now TIMESTAMPTZ, p_millis BIGINT
  ) RETURNS TABLE (request_hash BYTEA, reply TEXT) LANGUAGE plpgsql AS $$
  #variable_conflict use_column
  DECLARE
    made TEXT;
    body TEXT;
  BEGIN
    RETURN QUERY SELECT k.request_hash, k.reply FROM idempotency k
      WHERE k.tenant = p_tenant AND k.operation = 'create-event' AND k.key = p_key;
    IF FOUND THEN RETURN; END IF;
    INSERT INTO event (tenant, id, event_key, crossed_at, obj_id, region_id, camera_id, from_lane, to_lane, speed_kmh,
      created_at, updated_at) VALUES (p_tenant, p_id, p_event_key, p_crossed_at, p_obj_id, p_region_id, p_camera_id,
      p_from_lane, p_to_lane, p_speed, p_now, p_now) ON CONFLICT (tenant, event_key) DO NOTHING RETURNING id INTO made;
    IF made IS NOT NULL THEN
      INSERT INTO outbox (event_id, tenant, topic, subject, payload, published_at)
        VALUES (p_event_id, p_tenant, 'lane-change.event-created', p_id, p_payload, p_millis);
    END IF;
    SELECT json_build_object('code', 0, 'data', json_build_object('event_id', e.id, 'created', made IS NOT NULL,
      'status', e.status))::TEXT INTO body FROM event e WHERE e.tenant = p_tenant AND e.event_key = p_event_key;
    INSERT INTO idempotency (tenant, operation, key, request_hash, reply, committed_at)
      VALUES (p_tenant, 'create-event', p_key, p_hash, body, p_millis);
    RETURN QUERY SELECT p_hash, body;
  END $$;
`)

const RECORD = 'SELECT request_hash, reply FROM idempotency WHERE tenant = $1 AND operation = $2 AND key = $3'
const INSERT = `INSERT INTO event (tenant, id, event_key, crossed_at, obj_id, region_id, camera_id, from_lane, to_lane,
  speed_kmh, created_at, updated_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
  ON CONFLICT (tenant, event_key) DO NOTHING RETURNING id, status`
const BY_KEY = 'SELECT id, status FROM event WHERE tenant = $1 AND event_key = $2'
const PUBLISH = `INSERT INTO outbox (event_id, tenant, topic, subject, payload, published_at)
  VALUES ($1, $2, $3, $4, $5, $6)`
const KEEP = `INSERT INTO idempotency (tenant, operation, key, request_hash, reply, committed_at)
  VALUES ($1, $2, $3, $4, $5, $6)`
const CALL = 'SELECT * FROM create_event($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13,$14,$15,$16)'
const PAGE = `SELECT * FROM event WHERE tenant = $1 AND region_id = $2 AND (crossed_at, id) > ($3, $4)
  ORDER BY crossed_at, id LIMIT $5`

// Prepared once a connection.
const run = (client, name, text, values) => client.query({ name, text, values })

async function inSteps({ tenant, key, input }) {
  const hash = hashOf(input)
  const client = await pool.connect()
  try {
    await client.query('BEGIN')
    const found = await run(client, 'record', RECORD, [tenant, 'create-event', key])
    if (found.rows[0]) {
      await client.query('COMMIT')
      return recorded(found.rows[0], hash)
    }
    const now = new Date()
    const { event_key, crossed_at, obj_id, region_id, camera_id, from_lane, to_lane, speed_kmh } = input
    const at = new Date(crossed_at).toISOString()
    const made = await run(client, 'insert', INSERT, [
      tenant, randomUUID(), event_key, at, obj_id, region_id, camera_id ?? null, from_lane ?? null, to_lane ?? null,
      speed_kmh ?? null, now, now,
    ])
    const created = made.rowCount === 1
    const row = created ? made.rows[0] : (await run(client, 'by-key', BY_KEY, [tenant, event_key])).rows[0]
    if (created) {
      const payload = JSON.stringify({ event_id: row.id, event_key, crossed_at: at, obj_id, region_id })
      await run(client, 'publish', PUBLISH, [
        randomUUID(), tenant, 'lane-change.event-created', row.id, payload, now.getTime(),
      ])
    }
    const body = JSON.stringify({ code: 0, data: { event_id: row.id, created, status: row.status } })
    await run(client, 'keep', KEEP, [tenant, 'create-event', key, hash, body, now.getTime()])
    await client.query('COMMIT')
    return { status: 200, body }
  } catch (error) {
    await client.query('ROLLBACK')
    throw error
  } finally {
    client.release()
  }
}

async function inOneCall({ tenant, key, input }) {
  const hash = hashOf(input)
  const now = new Date()
  const id = randomUUID()
  const { event_key, crossed_at, obj_id, region_id, camera_id, from_lane, to_lane, speed_kmh } = input
  const at = new Date(crossed_at).toISOString()
  const payload = JSON.stringify({ event_id: id, event_key, crossed_at: at, obj_id, region_id })
  const { rows } = await run(pool, 'call', CALL, [
    tenant, key, hash, id, randomUUID(), event_key, at, obj_id, region_id, camera_id ?? null, from_lane ?? null,
    to_lane ?? null, speed_kmh ?? null, payload, now, now.getTime(),
  ])
  return recorded(rows[0], hash)
}

await serve(options.port, {
  create: options.call === 'steps' ? inSteps : inOneCall,
  page: async (tenant, region, at, id, limit) =>
    (await run(pool, 'page', PAGE, [tenant, region, at === '' ? '-infinity' : at, id, limit])).rows,
})
