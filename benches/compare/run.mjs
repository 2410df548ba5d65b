// oncehost beside the same service written by hand, alternately, three rounds, as a table of ratios.
//
//   node benches/compare/run.mjs [--store sqlite|postgres] [--seconds 5] [--rounds 3] [--connections 1,16,64]
//                                [--modes fresh,replay,reuse,read,race]
//
// It builds what it needs (release) and takes free ports; --host BINARY --load BINARY name what is built already. What
// is compared stands in sqlite.mjs and postgres.mjs; for the latter it starts a Postgres of its own.
import { execFileSync, spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { cpus, tmpdir, totalmem } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { help, installed, number, program, refuse } from '../given.mjs'
import { freePort, startPostgres } from './server.mjs'

const here = dirname(fileURLToPath(import.meta.url))
const root = join(here, '..', '..')
help()
const options = read({
  seconds: { type: 'string', default: '5' },
  rounds: { type: 'string', default: '3' },
  connections: { type: 'string', default: '1,16,64' },
  modes: { type: 'string', default: 'fresh,replay,read' },
  store: { type: 'string', default: 'sqlite' },
  host: { type: 'string' },
  load: { type: 'string' },
})
for (const name of ['seconds', 'rounds']) number(options[name], `--${name}`)
const connections = options.connections.split(',').map((it) => number(it, '--connections'))
const modes = options.modes.split(',').map((it) => oneOf('--modes', it, ['fresh', 'replay', 'reuse', 'read', 'race']))
for (const name of ['host', 'load']) {
  if (options[name]) options[name] = program(options[name], name.toUpperCase())
}
const target = process.env.CARGO_TARGET_DIR ?? join(root, 'target')

function read(options) {
  try {
    return parseArgs({ options }).values
  } catch (error) {
    return refuse(error.message)
  }
}

function oneOf(name, given, known) {
  return known.includes(given) ? given : refuse(`${name} takes ${known.join(', ')}; it got ${given}`)
}

function build() {
  if (options.host && options.load) return { host: options.host, load: options.load }
  execFileSync('cargo', ['build', '--locked', '--release'], { cwd: root, stdio: 'inherit' })
  const told = execFileSync('cargo', ['bench', '--locked', '--bench', 'load', '--no-run', '--message-format', 'json'], {
    cwd: root,
    maxBuffer: 1 << 28,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const artifacts = told.toString().split('\n').filter(Boolean).map((line) => JSON.parse(line))
  const load = artifacts.find((it) => it.executable && it.target?.name === 'load').executable
  return { host: join(target, 'release', 'oncehost'), load }
}

const ours = (port, data, { host }, store = []) => [
  host, ['dev', '--apply-schema', '--data', data, '--listen', `127.0.0.1:${port}`, ...store],
]
const theirs = (file, ...args) => ['node', [join(here, file), ...args]]
const services = {
  sqlite: {
    oncehost: ours,
    'node, plain': (port, data) =>
      theirs('sqlite.mjs', '--commit', 'one', '--data', join(data, 'service.db'), '--port', port),
    'node, group commit': (port, data) =>
      theirs('sqlite.mjs', '--commit', 'group', '--data', join(data, 'service.db'), '--port', port),
  },
  postgres: {
    oncehost: (port, data, built) => ours(port, data, built, ['--store', server.emptied()]),
    'node and pg, plain': (port) => theirs('postgres.mjs', '--call', 'steps', '--url', server.emptied(), '--port', port),
    'node and pg, plpgsql': (port) =>
      theirs('postgres.mjs', '--call', 'function', '--url', server.emptied(), '--port', port),
  },
}
const contenders = services[oneOf('--store', options.store, Object.keys(services))]
const server = options.store === 'postgres' ? await startPostgres() : undefined

async function started(port) {
  for (let tries = 0; tries < 400; tries++) {
    try {
      const body = JSON.stringify({ region_id: 'none', limit: 1 })
      const url = `http://127.0.0.1:${port}/plugins/lane-change/invoke/lane-change.list-events`
      const answer = await fetch(url, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body })
      if (answer.ok) return
    } catch {}
    await new Promise((resolve) => setTimeout(resolve, 25))
  }
  throw new Error(`nothing answers on port ${port}`)
}

/** One measurement: requests a second, p50 and p99 in ms, and processor microseconds a request. */
async function measure(name, mode, connections, built) {
  const data = mkdtempSync(join(tmpdir(), 'oncehost-compare-'))
  const port = await freePort()
  const [command, args] = contenders[name](port, data, built)
  const service = spawn(command, args.map(String), { cwd: root, stdio: 'ignore' })
  try {
    await started(port)
    const out = execFileSync(built.load, [
      '--mode', mode, '--connections', String(connections), '--seconds', options.seconds, '--url', `http://127.0.0.1:${port}`,
      '--pid', String(service.pid),
    ]).toString()
    const rate = Number(/: (\d+) requests\/s/.exec(out)[1])
    const [, p50, , p99] = /p50 (\d+) µs, p90 (\d+) µs, p99 (\d+) µs/.exec(out).map(Number)
    const cpu = Number(/(\d+) µs of a processor/.exec(out)[1])
    return { rate, p50: p50 / 1000, p99: p99 / 1000, cpu }
  } finally {
    service.kill('SIGKILL')
    await new Promise((resolve) => service.once('exit', resolve))
    rmSync(data, { recursive: true, force: true })
  }
}

const median = (numbers) => numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)]

installed()
const built = build()
const [cpu] = cpus()
console.log(`\n${cpus().length} cores (${cpu.model.trim()}), ${Math.round(totalmem() / 2 ** 30)} GiB, Node ${process.version}, ${options.rounds} rounds of ${options.seconds} s, medians; the driver shares the cores\n`)
console.log('| what | connections | service | requests/s | p50 ms | p99 ms | CPU µs/request | oncehost is |')
console.log('|---|---|---|---|---|---|---|---|')
for (const mode of modes) {
  for (const many of connections) {
    const seen = Object.fromEntries(Object.keys(contenders).map((name) => [name, []]))
    for (let round = 0; round < Number(options.rounds); round++) {
      for (const name of Object.keys(contenders)) seen[name].push(await measure(name, mode, many, built))
    }
    const of = (name, what) => median(seen[name].map((it) => it[what]))
    for (const name of Object.keys(contenders)) {
      const ratio = (of('oncehost', 'rate') / of(name, 'rate')).toFixed(2)
      console.log(
        `| ${mode} | ${many} | ${name} | ${of(name, 'rate')} | ${of(name, 'p50').toFixed(2)} | ${of(name, 'p99').toFixed(2)} | ${of(name, 'cpu').toFixed(0)} | ${ratio} × |`,
      )
    }
  }
}
server?.stop()
