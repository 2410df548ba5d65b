import type { Row } from '@oncehost/sdk/plugin'
import { must } from './must.ts'

/** The states of an event, in their order. */
export const PENDING = 'pending_video'
export const BOUND = 'video_bound'
export const PUSHED = 'pushed'

/** The event with this id; one that is not there is the caller's mistake. */
export function findEvent(eventId: string): Row<'lane_change_event'> {
  const event = must(store.get('lane_change_event', { id: { eq: eventId } }))
  if (event === null) {
    throw new BizError('EVENT_NOT_FOUND', `There is no lane change event ${eventId}.`, { status: 404 })
  }
  return event
}
