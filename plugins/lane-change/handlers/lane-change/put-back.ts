import type { ActionConfig } from '@oncehost/sdk/plugin'
import { publishStatus } from '../../lib/bind.ts'
import { BOUND, PENDING, findEvent } from '../../lib/event.ts'
import { must } from '../../lib/must.ts'
import { TEXT } from '../../lib/text.ts'

export const config = {
  input: {
    type: 'object',
    required: ['event_id', 'video_file_id'],
    properties: {
      event_id: { type: 'string', pattern: TEXT, minLength: 1 },
      video_file_id: { type: 'string', pattern: TEXT, minLength: 1 },
    },
  },
} satisfies ActionConfig

interface Outcome {
  event_id: string
  put_back: boolean
  status: string
}

/** Takes a clip off an event that it does not show, so that another one can be bound. A step of the flow. */
export function handle({ event_id, video_file_id }: { event_id: string; video_file_id: string }): Outcome {
  const { affected } = must(store.update(
    'lane_change_event',
    { id: { eq: event_id }, status: { eq: BOUND }, video_file_id: { eq: video_file_id } },
    { status: PENDING, video_file_id: null },
  ))
  if (affected === 1) publishStatus(event_id, PENDING, video_file_id)
  return { event_id, put_back: affected === 1, status: findEvent(event_id).status }
}
