import type { CloudEvent, HandlerCtx } from '@oncehost/sdk/plugin'
import { note } from '../lib/line.ts'

/** The life of a lane change, state by state. */
export function handle(event: CloudEvent, ctx: HandlerCtx) {
  note({ what: event.type, subject: event.subject, by: null, at: event.time ?? ctx.now, details: event.data }, ctx)
}
