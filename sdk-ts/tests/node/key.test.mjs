import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createContext, invoke } from '../../dist/index.js'
import { keyHeader } from '../../dist/key.js'
import { answer, fakeFetch } from '../support/fake.mjs'

test('ASCII keys travel as Strings, others as Display Strings', () => {
  assert.equal(keyHeader('order-17'), '"order-17"')
  assert.equal(keyHeader('a "b" \\c'), '"a \\"b\\" \\\\c"')
  assert.equal(keyHeader('100%'), '"100%"')
  assert.equal(keyHeader('café "x" 5%'), '%"caf%c3%a9 %22x%22 5%25"')
  assert.equal(keyHeader('车道-☃'), '%"%e8%bd%a6%e9%81%93-%e2%98%83"')
})

test('what the host would refuse is refused before anything is sent', async () => {
  for (const key of ['', 'k'.repeat(256), 'é'.repeat(128), 'a\nb', 'a\u0085b', 'a\ud800b', 17, null]) {
    const { fetch, asked } = fakeFetch(answer(1))
    const ctx = createContext({ baseUrl: 'http://host.test', fetch })
    await assert.rejects(invoke(ctx, 'p', 'p.a', {}, { idempotencyKey: key }), { code: 'KEY_INVALID' }, JSON.stringify(key))
    assert.equal(asked.length, 0)
  }
  assert.ok(keyHeader('é'.repeat(127)))
})
