// Runs every example against a host of its own, with fresh data: node examples/run.mjs target/debug/oncehost

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import net from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))
const binary = path.resolve(process.argv[2] ?? path.join(root, 'target/debug/oncehost'))
const START_LIMIT = 60_000

/** A port that was free a moment ago. */
async function freePort() {
  const server = net.createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address()
  server.close()
  await once(server, 'close')
  return port
}

/** Resolves when the host says that it is ready; rejects when it ends first. */
async function ready(url, host) {
  for (const end = Date.now() + START_LIMIT; Date.now() < end; await pause(50)) {
    if (host.exitCode !== null || host.signalCode !== null) throw new Error('the host ended before it was ready')
    const answer = await fetch(`${url}/readyz`).catch(() => undefined)
    if (answer?.ok) return
  }
  throw new Error('the host did not become ready')
}

async function run(file, ...args) {
  console.log(`\n$ node ${[file, ...args].join(' ')}`)
  const child = spawn(process.execPath, [path.join(root, file), ...args], { stdio: 'inherit' })
  const [code] = await once(child, 'exit')
  if (code !== 0) throw new Error(`${file} ended with ${code}`)
}

/** Starts a service that the examples use, on a port of its own. */
async function serve(file) {
  const port = await freePort()
  const child = spawn(process.execPath, [path.join(root, file), '--port', String(port)], { stdio: ['ignore', 'pipe', 'inherit'] })
  await once(child.stdout, 'data')
  return { child, url: `http://127.0.0.1:${port}` }
}

const receiver = await serve('examples/lane-change/receiver.mjs')
const payments = await serve('examples/payments/server.mjs')
const data = mkdtempSync(path.join(tmpdir(), 'oncehost-examples-'))
const listen = `127.0.0.1:${await freePort()}`
const url = `http://${listen}`
const host = spawn(
  binary,
  ['dev', '--apply-schema', '--plugins', path.join(root, 'plugins'), '--data', data, '--listen', listen],
  {
    stdio: ['ignore', 'ignore', 'pipe'],
    env: {
      ...process.env,
      ONCEHOST_SETTINGS_LANE_CHANGE_PUSH_URL: `${receiver.url}/lane-changes`,
      ONCEHOST_SETTINGS_ORDERS_PAYMENT_URL: `${payments.url}/charges`,
    },
  },
)
let log = ''
host.stderr.on('data', chunk => { log = (log + chunk).slice(-20_000) })
host.on('error', error => { log += error.message })
try {
  await ready(url, host)
  await run('examples/tour.mjs', '--url', url)
  await run('examples/lane-change/feed.mjs', '--url', url)
  // A whole second feed, with other losses, changes nothing: every call is a replay.
  await run('examples/lane-change/feed.mjs', '--url', url, '--seed', '2')
  await run('examples/lane-change/push.mjs', '--url', url, '--receiver', receiver.url)
  await run('examples/payments/pay.mjs', '--url', url, '--payments', payments.url)
  host.kill('SIGTERM')
  const [code, signal] = host.exitCode === null ? await once(host, 'exit') : [host.exitCode]
  if (code !== 0) throw new Error(`the host ended with ${code ?? signal}`)
} catch (error) {
  console.error(`\nexamples: ${error.message}\n--- the end of the host's log\n${log}`)
  process.exitCode = 1
} finally {
  for (const child of [host, receiver.child, payments.child]) child.kill('SIGKILL')
  rmSync(data, { recursive: true, force: true })
}
