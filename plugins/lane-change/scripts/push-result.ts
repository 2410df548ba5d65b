import type { ScriptCtx } from '@oncehost/sdk/plugin'
import { publishStatus } from '../lib/bind.ts'
import { BOUND, PUSHED, findEvent } from '../lib/event.ts'
import { must } from '../lib/must.ts'

interface Input {
  eventId: string
  videoFileId: string
  idempotencyKey: string
}

/** What the receiver answers, with status 422, to a clip that does not show the crossing. */
const NOT_IN_CLIP = 'moment_not_in_clip'

/**
 * Posts a bound event to the receiver, part by part. After a crash parts are posted again, so each has a key of its own,
 * made of the step's key and its place: the parts must stand in the same order on every try.
 */
export async function handle({ eventId, videoFileId, idempotencyKey }: Input, ctx: ScriptCtx) {
  const { id, event_key, crossed_at, obj_id, region_id, from_lane, to_lane, speed_kmh } = findEvent(eventId)
  const parts = [
    { part: 'crossing', event_id: id, event_key, crossed_at, obj_id, region_id, from_lane, to_lane, speed_kmh },
    { part: 'clip', event_id: id, crossed_at, video_file_id: videoFileId },
  ]
  for (const [index, part] of parts.entries()) {
    const response = await fetch(String(ctx.settings['push_url']), {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'idempotency-key': `${idempotencyKey}:${index}` },
      body: JSON.stringify(part),
      signal: run.signal,
    })
    if (response.ok) continue
    const answer = await response.text()
    if (response.status === 422 && answer.includes(NOT_IN_CLIP)) return { accepted: false, reason: NOT_IN_CLIP }
    throw new Error(`The receiver answered ${response.status} to the ${part.part}: ${answer.slice(0, 200)}`)
  }
  must(store.update(
    'lane_change_event',
    { id: { eq: id }, status: { eq: BOUND }, video_file_id: { eq: videoFileId } },
    { status: PUSHED },
  ))
  // By its key once, also where a crash comes between the two.
  publishStatus(id, PUSHED, videoFileId)
  return { accepted: true, parts: parts.length }
}
