import type { ActionConfig, HandlerCtx } from '@oncehost/sdk/plugin'
import { INSTANT, INSTANT_FORM } from '../../lib/instant.ts'
import { TEXT } from '../../lib/text.ts'
import { must } from '../../lib/must.ts'

export const config = {
  key: 'required',
  // A camera that reports again says when it sends; that makes no other crossing of it.
  transient: ['sent_at'],
  input: {
    type: 'object',
    required: ['event_key', 'crossed_at', 'obj_id', 'region_id'],
    properties: {
      event_key: { type: 'string', pattern: TEXT, minLength: 1, maxLength: 500 },
      crossed_at: { type: 'string', format: 'date-time', pattern: INSTANT, description: INSTANT_FORM },
      obj_id: { type: 'string', pattern: TEXT, minLength: 1, maxLength: 100 },
      region_id: { type: 'string', pattern: TEXT, minLength: 1, maxLength: 100 },
      camera_id: { type: 'string', pattern: TEXT, minLength: 1, maxLength: 100 },
      from_lane: { type: 'integer' },
      to_lane: { type: 'integer' },
      speed_kmh: { type: 'number', minimum: 0 },
      sent_at: { type: 'string' },
    },
  },
} satisfies ActionConfig

interface Crossing {
  event_key: string
  crossed_at: string
  obj_id: string
  region_id: string
  camera_id?: string
  from_lane?: number
  to_lane?: number
  speed_kmh?: number
}

interface Recorded {
  event_id: string
  created: boolean
  status: string
}

/** Records a crossing, once for each event_key, whatever the number of calls and of their keys. */
export function handle(input: Crossing, _ctx: HandlerCtx): Recorded {
  const { event_key, crossed_at, obj_id, region_id, camera_id, from_lane, to_lane, speed_kmh } = input
  const { record, created } = must(store.createIfAbsent(
    'lane_change_event',
    { event_key, crossed_at, obj_id, region_id, camera_id, from_lane, to_lane, speed_kmh },
    ['event_key'],
  ))
  if (created) {
    const { id, crossed_at } = record
    must(notify.publish('lane-change.event-created', { event_id: id, event_key, crossed_at, obj_id, region_id }, {
      eventKey: `created:${id}`,
      subject: id,
    }))
  }
  return { event_id: record.id, created, status: record.status }
}
