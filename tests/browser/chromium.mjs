// Real Chromium, with a profile of its own for each test.

import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { chromium } from 'playwright-core'

// `tests/run` installs it where it can.
const PLACES = [process.env['CHROMIUM'], '/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome']
const FLAGS = [
  '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync',
]

/** Starts a browser with an empty profile; it ends with `test`. What goes wrong inside of pages fails the test. */
export async function browser(test) {
  const executablePath = PLACES.find(place => place && existsSync(place))
  if (!executablePath) throw new Error('there is no Chromium: on Debian or Ubuntu, apt-get install chromium; elsewhere name it in CHROMIUM')
  const profile = mkdtempSync(path.join(tmpdir(), 'oncehost-browser-'))
  const context = await chromium.launchPersistentContext(profile, { executablePath, headless: true, args: FLAGS })
  const thrown = []
  context.on('weberror', error => thrown.push(error.error()))
  test.after(async () => {
    await context.close()
    rmSync(profile, { recursive: true, force: true })
    if (thrown.length > 0) throw thrown[0]
  })
  return context
}
