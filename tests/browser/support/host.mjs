// The built host as a process, on folders and a port that outlive it.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import net from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'

/** A port that nobody uses just now. */
async function freePort() {
  const server = net.createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address()
  server.close()
  await once(server, 'close')
  return port
}

/** Folders with these plugin files, and a host on them that is not started yet. */
export async function host(binary, files) {
  const folder = mkdtempSync(join(tmpdir(), 'oncehost-'))
  for (const [path, text] of Object.entries(files)) {
    const file = join(folder, 'plugins', path)
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, text)
  }
  const port = await freePort()
  const { ONCEHOST_LONG: _long, ONCEHOST_SEED: _seed, ...environment } = process.env
  let child
  return {
    port,
    url: `http://127.0.0.1:${port}`,
    get pid() { return child.pid },
    async start() {
      const args = ['dev', '--apply-schema', '--log', 'warn', '--listen', `127.0.0.1:${port}`]
      child = spawn(resolve(binary), args, { cwd: folder, env: environment, stdio: ['ignore', 'pipe', 'inherit'] })
      const [line] = await Promise.race([
        once(child.stdout, 'data'),
        once(child, 'exit').then(([code]) => Promise.reject(new Error(`the host ended with ${code}`))),
      ])
      if (!String(line)) throw new Error('the host says nothing')
      child.stdout.resume()
      while (!(await fetch(`${this.url}/readyz`).then((it) => it.ok, () => false)));
    },
    /** As `kill -9` does. */
    async kill() {
      const ended = once(child, 'exit')
      child.kill('SIGKILL')
      await ended
    },
    async end() {
      await this.kill()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}
