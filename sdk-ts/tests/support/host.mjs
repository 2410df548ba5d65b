// The built host as a process with fresh data, for tests in Node.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

export const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../../..')

/** The binary that is tested: the one that `cargo test` built, unless told otherwise. */
export const binary = process.env['ONCEHOST_BINARY'] ?? path.resolve(root, process.env['CARGO_TARGET_DIR'] ?? 'target', 'debug/oncehost')

/** A folder that is gone when the test is over. */
export function folder(test) {
  const made = mkdtempSync(path.join(tmpdir(), 'oncehost-sdk-'))
  test.after(() => rmSync(made, { recursive: true, force: true }))
  return made
}

/** Starts a host that `test` ends with, and gives its address. */
export async function host(test, { plugins = path.join(root, 'plugins'), args = ['dev', '--apply-schema'], env = {} } = {}) {
  if (!existsSync(binary)) throw new Error(`there is no host at ${binary}: run cargo build --all-features first`)
  const data = path.join(folder(test), 'data')
  // What says something to tests only, the host would take for a slip.
  const { ONCEHOST_LONG: _long, ONCEHOST_SEED: _seed, ONCEHOST_BINARY: _binary, ...outer } = process.env
  const child = spawn(binary, [...args, '--plugins', plugins, '--data', data, '--listen', '127.0.0.1:0'], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...outer, ...env },
  })
  let log = ''
  child.stderr.on('data', chunk => { log = (log + chunk).slice(-10_000) })
  const ended = once(child, 'exit')
  test.after(async () => {
    child.kill('SIGKILL')
    await ended
  })
  for await (const line of createInterface({ input: child.stdout })) {
    const url = /http:\/\/[\d.]+:\d+/.exec(line)?.[0]
    if (url !== undefined) {
      child.stdout.resume()
      return { url, child, data }
    }
  }
  throw new Error(`the host ended before it listened:\n${log}`)
}
