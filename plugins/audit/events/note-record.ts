import type { CloudEvent, HandlerCtx } from '@oncehost/sdk/plugin'
import { note } from '../lib/line.ts'

interface Recorded {
  what: string
  by: string | null
  at: string
}

/** What other plugins publish for the audit. */
export function handle(event: CloudEvent<Recorded>, ctx: HandlerCtx) {
  const { what, by, at, ...details } = event.data ?? {}
  // Trying again would not make it complete.
  if (typeof what !== 'string' || typeof at !== 'string') throw new Discard('an audit record needs `what` and `at`')
  note({ what, subject: event.subject, by: by ?? null, at, details }, ctx)
}
