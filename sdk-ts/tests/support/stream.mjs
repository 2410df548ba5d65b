// A small server of Server-Sent Events that keeps the contract of /notifications: positions in order, `Last-Event-ID`,
// an explicit `resync` where history is gone. Connections are cut at random places.

import { once } from 'node:events'
import http from 'node:http'
import { luck } from './luck.mjs'

/** Starts it; it ends with `test`. `cutting` is the chance that a write is the connection's last, and cut in the middle. */
export async function stream(test, { seed = 1, cutting = 0 } = {}) {
  const chance = luck(seed)
  const history = []
  const clients = new Set()
  const requests = []
  const state = { kept: 0, refuse: undefined }

  const write = (client, text) => {
    if (chance() >= cutting) return client.write(text)
    clients.delete(client)
    client.write(text.slice(0, Math.floor(chance() * text.length)), () => client.destroy())
  }
  const frame = event => `id: ${event.id}\ndata: ${JSON.stringify({ ...event, id: undefined })}\n\n`

  const server = http.createServer((request, response) => {
    requests.push({ url: request.url, headers: request.headers })
    if (state.refuse) {
      response.writeHead(state.refuse.status, { 'content-type': 'application/problem+json', ...state.refuse.headers })
      return response.end(JSON.stringify(state.refuse.body ?? {}))
    }
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    const last = Number(request.headers['last-event-id'] ?? history.length)
    if (last < state.kept) response.write(`id: ${state.kept}\nretry: 1000\nevent: resync\ndata: {"reason":"gone"}\n\n`)
    // The place before all that comes, for whoever loses the connection before the first message.
    else response.write(`: listening\nid: ${last}\nretry: 1000\n\n`)
    clients.add(response)
    response.on('close', () => clients.delete(response))
    for (const event of history.slice(Math.max(last, state.kept))) {
      if (!clients.has(response)) break
      write(response, frame(event))
    }
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  test.after(() => {
    server.closeAllConnections()
    server.close()
  })
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    requests,
    state,
    publish(topic, payload) {
      const event = { id: history.length + 1, eventId: `e${history.length + 1}`, topic, subject: null, payload, publishedAt: '2026-01-01T00:00:00.000Z' }
      history.push(event)
      for (const client of [...clients]) write(client, frame(event))
    },
    /** Sends this text to all, as it is. */
    raw(...parts) {
      for (const client of clients) for (const part of parts) client.write(part)
    },
    cut() {
      for (const client of clients) client.destroy()
      clients.clear()
    },
  }
}
