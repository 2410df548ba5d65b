// Runs the console blocks of README.md against a host, and compares what comes out with what the page says. Ids and
// times differ from run to run; the same id must be the same in all places.
//
//   node examples/tour.mjs --url http://127.0.0.1:7070 [--write]     --write puts the output into the page

import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'

const { values: options } = parseArgs({ options: { url: { type: 'string' }, write: { type: 'boolean' } } })
const page = new URL('../README.md', import.meta.url)
const text = readFileSync(page, 'utf8')
const PAGE_URL = 'http://127.0.0.1:7070'
const MARK = '\u241e'

/** The commands of a block, each with the output that the page shows. */
function commandsOf(block) {
  return block.split(/^\$ /m).slice(1).map(part => {
    const [command, ...output] = part.trimEnd().split('\n')
    return { command, output: output.join('\n') }
  })
}

/** Runs all commands in one shell, so that variables last, and gives the output of each. */
function run(commands) {
  const script = commands.map(({ command }) => `printf '${MARK}'\n${command}\n`).join('')
  const prelude = 'curl() { command curl --silent --show-error "$@"; }\n'
  const shell = spawnSync('bash', ['-c', prelude + script.replaceAll(PAGE_URL, options.url)], { encoding: 'utf8' })
  if (shell.error || shell.status !== 0) throw new Error(`the tour ended with ${shell.status}: ${shell.error ?? shell.stderr}`)
  const outputs = shell.stdout.replaceAll('\r', '').split(MARK).slice(1)
  return outputs.map(output => output.trim().replaceAll(options.url, PAGE_URL))
}

/** Numbers ids in the order in which they come up, and blanks out times. */
function comparable(outputs) {
  const ids = new Map()
  const uuid = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g
  return outputs.map(output => output
    .replace(uuid, id => {
      if (!ids.has(id)) ids.set(id, `ID${ids.size + 1}`)
      return ids.get(id)
    })
    .replace(/\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT/g, 'DATE')
    .replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'TIME'))
}

const pattern = /^```console\n(.*?)^```$/gms
const commands = [...text.matchAll(pattern)].flatMap(([, block]) => commandsOf(block))
const outputs = run(commands)
if (options.write) {
  let next = 0
  const written = text.replace(pattern, (_, block) => {
    const parts = commandsOf(block).map(({ command }) => [`$ ${command}`, outputs[next++]].filter(Boolean).join('\n'))
    return `\`\`\`console\n${parts.join('\n')}\n\`\`\``
  })
  writeFileSync(page, written)
  process.exit(0)
}
const wanted = comparable(commands.map(({ output }) => output))
const got = comparable(outputs)
const wrong = commands.findIndex((_, index) => wanted[index] !== got[index])
if (wrong !== -1) {
  console.error(`tour: README.md is not what happens.\n$ ${commands[wrong].command}\n--- README.md\n${wanted[wrong]}\n--- now\n${got[wrong]}`)
  process.exit(1)
}
console.log(`${commands.length} commands of README.md give what it says`)
