// What a database costs that has grown: fresh keys with few and with many records and rows, and while expired ones are
// cleared beside.
//   node benches/grown.mjs BINARY LOAD [ROWS] [SECONDS]
// LOAD is the load driver (cargo bench --bench load --no-run tells where it is). The rows are written by SQLite itself,
// as copies of some that the host made.
import { execFileSync, spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePort } from './compare/server.mjs'
import { given, installed } from './given.mjs'

const { BINARY: binary, LOAD: driver, ROWS: rows, SECONDS: seconds } = given({ BINARY: undefined, LOAD: undefined, ROWS: '5000000', SECONDS: '5' })
installed()
const Database = createRequire(new URL('./compare/package.json', import.meta.url))('better-sqlite3')
const EXPIRED = 500_000
const data = mkdtempSync(join(tmpdir(), 'oncehost-grown-'))
const file = join(data, 'lane-change.db')

async function started(port) {
  for (let tries = 0; tries < 4000; tries++) {
    try {
      if ((await fetch(`http://127.0.0.1:${port}/readyz`)).ok) return
    } catch {}
    await new Promise((resolve) => setTimeout(resolve, 25))
  }
  throw new Error('the host does not start')
}

async function host() {
  const port = await freePort()
  const process = spawn(binary, ['dev', '--apply-schema', '--data', data, '--listen', `127.0.0.1:${port}`], { stdio: 'ignore' })
  const begun = Date.now()
  await started(port)
  const ended = new Promise((resolve) => process.once('exit', resolve))
  return {
    begun,
    load: () => {
      const out = execFileSync(driver, ['--mode', 'fresh', '--connections', '64', '--seconds', String(seconds), '--url', `http://127.0.0.1:${port}`]).toString()
      const [, rate] = /: (\d+) requests\/s/.exec(out)
      const [, p50, p99] = /p50 (\d+) µs, .*p99 (\d+) µs/.exec(out)
      return { rate: Number(rate), p50: p50 / 1000, p99: p99 / 1000 }
    },
    stop: () => {
      process.kill('SIGTERM')
      return ended
    },
  }
}

const show = (what, { rate, p50, p99 }) => console.log(`| ${what} | ${rate} | ${p50.toFixed(1)} | ${p99.toFixed(1)} |`)

/** Copies of one record, row and event each, `count` times; `ago` says how many milliseconds older the records are. */
function fill(count, name, ago) {
  const database = new Database(file)
  database.pragma('synchronous = off')
  const columns = (table) => database.prepare(`SELECT name FROM pragma_table_info('${table}')`).all().map((it) => it.name)
  const changed = {
    _oncehost_keys: { id: 'NULL', key: "lower(hex(randomblob(16)))", committed_at: `committed_at - ${ago}` },
    lane_change_event: { id: "lower(hex(randomblob(16)))", event_key: `'${name}:' || n` },
    // Keys in the order in which they came, as those with the ids of rows are.
    _oncehost_events: { id: 'NULL', event_id: 'lower(hex(randomblob(16)))', event_key: "printf('created:0%015d', n)" },
  }
  const tables = ago === 0 ? Object.keys(changed) : ['_oncehost_keys']
  for (const table of tables) {
    const values = columns(table).map((column) => changed[table][column] ?? column)
    const insert = database.prepare(
      `WITH RECURSIVE numbers(n) AS (SELECT ? UNION ALL SELECT n + 1 FROM numbers WHERE n < ?)
       INSERT INTO ${table} (${columns(table)}) SELECT ${values} FROM numbers, (SELECT * FROM ${table} LIMIT 1)`,
    )
    for (let from = 1; from <= count; from += 100_000) insert.run(from, Math.min(from + 99_999, count))
  }
  database.pragma('wal_checkpoint(TRUNCATE)')
  database.close()
  // Or the system writes it out while the next run is measured.
  execFileSync('sync')
}

try {
  console.log('| fresh keys, 64 connections | requests/s | p50 ms | p99 ms |')
  console.log('|---|---|---|---|')
  let running = await host()
  const empty = running.load()
  show('empty database', empty)
  await running.stop()
  fill(rows, 'filled', 0)
  running = await host()
  const grown = running.load()
  show(`${rows} records, rows and events`, grown)
  await running.stop()
  fill(EXPIRED, 'expired', 100 * 24 * 3600 * 1000)
  running = await host()
  const until = (ms) => new Promise((resolve) => setTimeout(resolve, Math.max(0, running.begun + ms - Date.now())))
  await until(50_000 - seconds * 1000)
  const before = running.load()
  show('the same again, before the clearing', before)
  // The first clearing comes a minute after the start.
  await until(60_200)
  const beside = running.load()
  show(`while ${EXPIRED} expired records are cleared`, beside)
  await running.stop()
  const left = new Database(file, { readonly: true }).prepare(`SELECT count(*) AS n FROM _oncehost_keys WHERE committed_at < ?`)
  console.log(`\nRate with many: ${((100 * grown.rate) / empty.rate).toFixed(0)} %. p99 beside the clearing: ${(beside.p99 / before.p99).toFixed(2)} ×. Expired records left: ${left.get(Date.now() - 90 * 24 * 3600 * 1000).n}`)
} finally {
  rmSync(data, { recursive: true, force: true })
}
