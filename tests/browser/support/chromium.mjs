// A real Chromium without a window, from where the system has it.

import { existsSync } from 'node:fs'
import { chromium } from 'playwright-core'

const PLACES = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome']

/** Starts it; whoever calls closes it. */
export async function browser() {
  const executablePath = process.env.CHROMIUM ?? PLACES.find(existsSync)
  if (!executablePath) throw new Error('there is no Chromium; on Debian or Ubuntu: apt-get install chromium')
  // Its sandbox does not start for root, as which tests run in containers; it sees nothing but pages of ours.
  return chromium.launch({ executablePath, args: process.getuid?.() === 0 ? ['--no-sandbox'] : [] })
}
