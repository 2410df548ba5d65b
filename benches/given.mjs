// What the command line of a bench says. Wrong use ends with one sentence and the usage, as the host's own commands do.

import { execFileSync } from 'node:child_process'
import { accessSync, constants, existsSync, readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

/** Ends the bench: it was used wrongly, or something that it needs is not there. */
export function refuse(what) {
  console.error(`${what}\n\n${usage()}`)
  process.exit(2)
}

/** The comment at the head of the file that runs. */
function usage() {
  const lines = readFileSync(process.argv[1], 'utf8').split('\n')
  return lines.slice(0, lines.findIndex((line) => !line.startsWith('//'))).map((line) => line.slice(3)).join('\n')
}

/** Shows the usage where it is asked for. */
export function help() {
  if (!process.argv.some((it) => it === '--help' || it === '-h')) return
  console.log(usage())
  process.exit(0)
}

/** Installs what the services written by hand need, unless it is there. */
export function installed() {
  const folder = fileURLToPath(new URL('./compare/', import.meta.url))
  if (existsSync(`${folder}node_modules/.package-lock.json`)) return
  // What it says of itself is no part of the table.
  execFileSync('npm', ['ci', '--no-audit', '--no-fund'], { cwd: folder, stdio: ['ignore', 2, 2] })
}

/** A program that is there, with its whole path: some benches start it in another folder. */
export function program(path, name) {
  try {
    accessSync(path, constants.X_OK)
  } catch {
    const made = name === 'LOAD' ? '`cargo bench --bench load --no-run` makes it and says where' : '`cargo build --release` makes target/release/oncehost'
    refuse(`${name}: there is no program ${path}; ${made}`)
  }
  return resolve(path)
}

/** A whole number above zero. */
export function number(text, name) {
  if (!/^[1-9]\d{0,8}$/.test(text)) refuse(`${name}: ${text} is no whole number above 0`)
  return Number(text)
}

/** What stands there by place; `defaults` says by name what holds where it is left out, and `undefined` what must not be. */
export function given(defaults) {
  help()
  const words = process.argv.slice(2)
  const names = Object.keys(defaults)
  if (words.length > names.length || words.some((word) => word.startsWith('-'))) refuse(`it takes ${names.join(', ')}; it got ${words.join(' ')}`)
  return Object.fromEntries(names.map((name, place) => {
    const word = words[place] ?? defaults[name]
    if (word === undefined) refuse(`${name} is missing`)
    return [name, name === 'BINARY' || name === 'LOAD' ? program(word, name) : number(word, name)]
  }))
}
