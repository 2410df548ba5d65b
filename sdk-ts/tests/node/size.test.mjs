import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { test } from 'node:test'
import { gzipSync } from 'node:zlib'

const dist = new URL('../../dist/', import.meta.url)

test('the client is less than 6 kB gzipped', () => {
  const files = readdirSync(dist).filter(name => name.endsWith('.js'))
  assert.ok(files.includes('index.js'))
  const size = gzipSync(Buffer.concat(files.map(name => readFileSync(new URL(name, dist)))), { level: 9 }).length
  assert.ok(size < 6000, `${size} bytes`)
})

test('the client needs no other package', () => {
  const { dependencies, peerDependencies } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'))
  assert.deepEqual([dependencies, peerDependencies], [undefined, undefined])
  for (const name of readdirSync(dist).filter(name => name.endsWith('.js'))) {
    const from = [...readFileSync(new URL(name, dist), 'utf8').matchAll(/from '([^']+)'|import\('([^']+)'\)/g)].map(found => found[1] ?? found[2])
    assert.deepEqual(from.filter(specifier => !specifier.startsWith('./')), [], name)
  }
})
