// How long a host takes from its start to its first reply, and how much memory it has at rest, with few and many plugins.
//   node benches/start.mjs BINARY [RUNS]
import { spawn } from 'node:child_process'
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { freePort } from './compare/server.mjs'
import { given } from './given.mjs'

const { BINARY: binary, RUNS: runs } = given({ BINARY: 'target/release/oncehost', RUNS: '9' })
const shipped = fileURLToPath(new URL('../plugins/', import.meta.url))

/** A folder with this many copies of a shipped plugin, each with tables, flows and subscriptions. */
function plugins(folder, count) {
  for (let n = 0; n < count; n += 1) {
    const at = join(folder, 'plugins', `lane-change-${n}`)
    cpSync(join(shipped, 'lane-change'), at, { recursive: true })
    const manifest = JSON.parse(readFileSync(join(at, 'plugin.json'), 'utf8'))
    writeFileSync(join(at, 'plugin.json'), JSON.stringify({ ...manifest, id: `lane-change-${n}` }))
  }
}

async function firstReply(port) {
  const url = `http://127.0.0.1:${port}/plugins/lane-change-0/invoke/lane-change.list-events`
  for (;;) {
    try {
      const request = { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: '{"region_id":"none","limit":1}' }
      if ((await fetch(url, request)).ok) return
    } catch {}
    await new Promise((resolve) => setTimeout(resolve, 1))
  }
}

const rest = (pid) => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))[1]) / 1024

/** Threads without work end after a minute, and their databases are closed. */
const RESTED = 75_000

console.log('| plugins | first reply, median ms | most ms | memory 2 s later, MiB | after 75 s without a call, MiB |')
console.log('|---|---|---|---|---|')
for (const count of [2, 100]) {
  const folder = mkdtempSync(join(tmpdir(), 'oncehost-start-'))
  plugins(folder, count)
  const [times, memory] = [[], []]
  let rested = 0
  // The first one makes the tables.
  for (let run = 0; run <= runs; run += 1) {
    const port = await freePort()
    const begun = performance.now()
    const host = spawn(binary, ['dev', '--apply-schema', '--listen', `127.0.0.1:${port}`], { cwd: folder, stdio: 'ignore' })
    const ended = new Promise((resolve) => host.once('exit', resolve))
    await firstReply(port)
    const took = performance.now() - begun
    await new Promise((resolve) => setTimeout(resolve, 2000))
    if (run > 0) {
      times.push(took)
      memory.push(rest(host.pid))
    }
    if (run === runs) {
      await new Promise((resolve) => setTimeout(resolve, RESTED))
      rested = rest(host.pid)
    }
    host.kill('SIGTERM')
    await ended
  }
  times.sort((a, b) => a - b)
  console.log(`| ${count} | ${times[Math.floor(times.length / 2)].toFixed(0)} | ${times.at(-1).toFixed(0)} | ${Math.max(...memory).toFixed(0)} | ${rested.toFixed(0)} |`)
  rmSync(folder, { recursive: true, force: true })
}
