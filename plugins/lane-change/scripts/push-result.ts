import type { ScriptCtx } from '@oncehost/sdk/plugin'
import { publishStatus } from '../lib/bind.ts'
import { BOUND, PUSHED, findEvent } from '../lib/event.ts'
import { must } from '../lib/must.ts'

interface Input {
  eventId: string
  videoFileId: string
  idempotencyKey: string
}

/** Posts a bound event to the receiver. It may be posted again after a crash, so the key goes with it. */
export async function handle(input: Input, ctx: ScriptCtx) {
  const event = findEvent(input.eventId)
  const response = await fetch(String(ctx.settings['push_url']), {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'idempotency-key': `"${input.idempotencyKey}"` },
    body: JSON.stringify({
      event_id: event.id,
      crossed_at: event.crossed_at,
      obj_id: event.obj_id,
      region_id: event.region_id,
      video_file_id: input.videoFileId,
    }),
    signal: run.signal,
  })
  if (!response.ok) throw new Error(`The receiver answered ${response.status}.`)
  must(store.update(
    'lane_change_event',
    { id: { eq: event.id }, status: { eq: BOUND }, video_file_id: { eq: input.videoFileId } },
    { status: PUSHED },
  ))
  // By its key once, also where a crash comes between the two.
  publishStatus(event.id, PUSHED, input.videoFileId)
  return { status: response.status }
}
