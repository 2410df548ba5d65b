// The server of the example page.

import assert from 'node:assert/strict'
import http from 'node:http'
import { test } from 'node:test'
import { serve } from '../../../examples/lane-change-web/serve.mjs'

test('the page\'s server answers an address that is none with 404, and goes on', async t => {
  const { server, url } = await serve()
  t.after(() => server.close())
  const status = path => new Promise((resolve, reject) => {
    http.get(url, { path, agent: false }, response => {
      response.resume()
      resolve(response.statusCode)
    }).on('error', reject)
  })
  assert.deepEqual([await status('//'), await status('//x:y/'), await status('/no.js')], [404, 404, 404])
  assert.deepEqual([await status('/'), await status('/?a=1'), await status('/page.js')], [200, 200, 200])
})
