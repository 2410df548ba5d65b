import type { HandlerCtx } from '@oncehost/sdk/plugin'
import { must } from './must.ts'

/** What a line of the audit says. */
export interface Line {
  what: string
  subject: string | undefined
  by: string | null
  at: string
  details: unknown
}

/** Adds the line of an event. An event that is delivered again finds it there. */
export function note({ what, subject, by, at, details }: Line, ctx: HandlerCtx) {
  const event_id = ctx.idempotencyKey
  if (event_id === undefined) throw new Discard('an event without an id')
  must(store.createIfAbsent(
    'audit_line',
    { event_id, what, subject: subject ?? null, done_by: by, happened_at: at, details },
    ['event_id'],
  ))
}
