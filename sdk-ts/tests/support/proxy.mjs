// A bad network in front of a host: it drops, delays, doubles, reorders and cuts, as chance has it.

import { once } from 'node:events'
import http from 'node:http'
import { luck } from './luck.mjs'

/** What can happen to one request; what is left of the chance is a request that goes through. */
const MISHAPS = [
  ['drop', 0.08], ['lose', 0.08], ['cut', 0.06], ['double', 0.08], ['hold', 0.08], ['slow', 0.06], ['swallow', 0.01], ['refuse', 0.05],
]

/** Starts the proxy; it ends with `test`. Gives its address, what came in, and how often each mishap happened. */
export async function badNetwork(test, target, { seed = 1 } = {}) {
  const chance = luck(seed)
  const seen = []
  const count = {}
  const held = []
  const agent = new http.Agent({ keepAlive: true })

  const pick = () => {
    let left = chance()
    for (const [name, share] of MISHAPS) {
      if (left < share) return name
      left -= share
    }
    return 'pass'
  }

  const send = (request, body) => new Promise((resolve, reject) => {
    const { method, url, headers } = request
    const onward = http.request(new URL(url, target), { method, headers: { ...headers, host: new URL(target).host }, agent })
    onward.on('error', reject)
    onward.on('response', response => {
      const chunks = []
      response.on('data', chunk => chunks.push(chunk))
      response.on('error', reject)
      response.on('end', () => resolve({ status: response.statusCode, headers: response.headers, body: Buffer.concat(chunks) }))
    })
    onward.end(body)
  })

  const server = http.createServer(async (request, response) => {
    const chunks = []
    for await (const chunk of request) chunks.push(chunk)
    const body = Buffer.concat(chunks)
    const mishap = pick()
    count[mishap] = (count[mishap] ?? 0) + 1
    seen.push({ key: request.headers['idempotency-key'], body: body.toString(), mishap })
    // Whatever comes next lets one go that was held: they arrive in another order.
    held.shift()?.()
    if (mishap === 'drop') return request.socket.destroy()
    if (mishap === 'swallow') return
    if (mishap === 'refuse') {
      response.writeHead([429, 502, 503, 504][Math.floor(chance() * 4)], { 'content-type': 'text/html' })
      return response.end('<h1>The gateway is out of sorts</h1>')
    }
    if (mishap === 'hold') await new Promise(go => { held.push(go); setTimeout(go, 100) })
    if (mishap === 'slow') await new Promise(go => setTimeout(go, chance() * 40))
    try {
      const copies = mishap === 'double' ? [send(request, body), send(request, body)] : [send(request, body)]
      const answers = await Promise.all(copies)
      const answer = answers[Math.floor(chance() * answers.length)]
      if (mishap === 'lose') return request.socket.destroy()
      response.writeHead(answer.status, answer.headers)
      if (mishap !== 'cut') return response.end(answer.body)
      response.write(answer.body.subarray(0, Math.floor(chance() * answer.body.length)), () => request.socket.destroy())
    } catch {
      request.socket.destroy()
    }
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  test.after(() => {
    agent.destroy()
    server.closeAllConnections()
    server.close()
  })
  return { url: `http://127.0.0.1:${server.address().port}`, seen, count }
}
