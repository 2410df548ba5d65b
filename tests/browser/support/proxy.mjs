// A proxy that cuts connections. It writes the host's own address into requests, so that `dev` takes them for its own.

import { once } from 'node:events'
import net from 'node:net'

/** Passes connections on to a port of this machine. */
export async function proxy(port) {
  const open = new Set()
  const server = net.createServer((near) => {
    const far = net.connect(port, '127.0.0.1')
    const pair = { near, far }
    open.add(pair)
    const end = () => {
      open.delete(pair)
      near.destroy()
      far.destroy()
    }
    near.on('data', (bytes) => far.write(bytes.toString('latin1').replaceAll(`127.0.0.1:${own}`, `127.0.0.1:${port}`), 'latin1'))
    far.on('data', (bytes) => near.write(bytes))
    for (const side of [near, far]) side.on('error', end).on('close', end)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const own = server.address().port
  return {
    url: `http://127.0.0.1:${own}`,
    /** Cuts all connections that are open; gives how many. */
    cut() {
      const count = open.size
      for (const { near, far } of open) {
        near.destroy()
        far.destroy()
      }
      return count
    },
    end() {
      this.cut()
      server.close()
    },
  }
}
