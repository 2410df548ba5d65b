// A Postgres of the comparison's own: durable, on a free port of this machine, gone afterwards.
import { execFileSync } from 'node:child_process'
import { chmodSync, existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const DEBIAN = '/usr/lib/postgresql'

function folderOfPrograms() {
  const versions = existsSync(DEBIAN) ? readdirSync(DEBIAN).sort((a, b) => Number(b) - Number(a)) : []
  const found = versions.map((version) => join(DEBIAN, version, 'bin')).find((bin) => existsSync(join(bin, 'initdb')))
  const path = process.env.PATH.split(':').find((bin) => existsSync(join(bin, 'initdb')))
  if (!found && !path) throw new Error('PostgreSQL is not installed: apt-get install postgresql, or put initdb on the PATH')
  return found ?? path
}

export const freePort = () =>
  new Promise((resolve) => {
    const probe = createServer().listen(0, '127.0.0.1', () => {
      const { port } = probe.address()
      probe.close(() => resolve(port))
    })
  })

/** Starts it; gives `emptied()`, the address of a database with nothing in it, and `stop()`. */
export async function startPostgres() {
  const bin = folderOfPrograms()
  const folder = mkdtempSync(join(tmpdir(), 'oncehost-compare-pg-'))
  const data = join(folder, 'data')
  const port = await freePort()
  // It refuses to run as root.
  const root = process.getuid() === 0
  if (root) {
    chmodSync(folder, 0o755)
    execFileSync('chown', ['postgres', folder])
  }
  const run = (program, ...args) => {
    const command = [join(bin, program), ...args]
    const [file, ...rest] = root ? ['runuser', '-u', 'postgres', '--', ...command] : command
    return execFileSync(file, rest, { cwd: '/', stdio: ['ignore', 'ignore', 'inherit'] })
  }
  run('initdb', '-D', data, '-U', 'compare', '-A', 'trust', '-E', 'UTF8', '--locale=C')
  const settings = `-p ${port} -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c shared_buffers=512MB -c max_connections=200`
  run('pg_ctl', '-D', data, '-w', '-l', join(folder, 'log'), '-o', settings, 'start')
  const address = (database) => `postgres://compare@127.0.0.1:${port}/${database}`
  let made = 0
  return {
    emptied() {
      made += 1
      run('createdb', '-h', '127.0.0.1', '-p', `${port}`, '-U', 'compare', `run${made}`)
      return address(`run${made}`)
    },
    stop() {
      run('pg_ctl', '-D', data, '-m', 'immediate', 'stop')
      rmSync(folder, { recursive: true, force: true })
    },
  }
}
