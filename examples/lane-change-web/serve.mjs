// Serves the page, and the built SDK beside it:
//
//   npm ci --prefix sdk-ts && npm run --prefix sdk-ts build
//   ONCEHOST_ORIGINS=http://127.0.0.1:5173 oncehost dev --apply-schema
//   node examples/lane-change-web/serve.mjs [--port 5173]

import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import http from 'node:http'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'

const here = path.dirname(fileURLToPath(import.meta.url))
const sdk = path.resolve(here, '../../sdk-ts/dist')
const TYPES = { '.html': 'text/html; charset=utf-8', '.js': 'text/javascript', '.css': 'text/css' }

/** Starts the server, and gives it with its address. */
export async function serve(port = 0) {
  const server = http.createServer(async (request, response) => {
    // Not by `new URL`: it throws for `//`.
    const name = request.url.replace(/[?#].*/, '')
    const file = name.startsWith('/sdk/') ? path.join(sdk, path.basename(name)) : path.join(here, name === '/' ? 'index.html' : path.basename(name))
    const type = TYPES[path.extname(file)]
    const text = type && await readFile(file).catch(() => undefined)
    response.writeHead(text ? 200 : 404, { 'content-type': type ?? 'text/plain' })
    response.end(text || 'There is no such file.')
  })
  server.listen(port, '127.0.0.1')
  await once(server, 'listening')
  return { server, url: `http://127.0.0.1:${server.address().port}` }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { values } = parseArgs({ options: { port: { type: 'string', default: '5173' } } })
  const { url } = await serve(Number(values.port))
  console.log(`${url}\nThe host must let this page in: ONCEHOST_ORIGINS=${url} oncehost dev --apply-schema`)
}
