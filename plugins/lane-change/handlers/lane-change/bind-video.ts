import type { ActionConfig, HandlerCtx } from '@oncehost/sdk/plugin'
import { BOUND, PENDING, findEvent } from '../../lib/event.ts'
import { must } from '../../lib/must.ts'
import { TEXT } from '../../lib/text.ts'

export const config = {
  key: 'required',
  input: {
    type: 'object',
    required: ['event_id', 'video_file_id'],
    properties: {
      event_id: { type: 'string', pattern: TEXT, minLength: 1 },
      video_file_id: { type: 'string', pattern: TEXT, minLength: 1, maxLength: 200 },
    },
  },
} satisfies ActionConfig

interface Binding {
  event_id: string
  video_file_id: string
}

interface Outcome {
  event_id: string
  bound: boolean
  status: string
  video_file_id: string | null
  workflow_id: string | null
}

/** Binds a video to an event that waits for one, and starts what comes after. Of racing callers one binds. */
export function handle({ event_id, video_file_id }: Binding, _ctx: HandlerCtx): Outcome {
  const { affected } = must(store.update(
    'lane_change_event',
    { id: { eq: event_id }, status: { eq: PENDING } },
    { status: BOUND, video_file_id },
  ))
  if (affected === 0) {
    // Somebody was here before. The same binding, still waiting to be pushed, may go on: the start below is once
    // for event and file. Anything else has its own course already.
    const event = findEvent(event_id)
    if (event.status !== BOUND || event.video_file_id !== video_file_id) {
      return { event_id, bound: false, status: event.status, video_file_id: event.video_file_id, workflow_id: null }
    }
  }
  const started = must(flow.start('lane-change-postprocess', `${event_id}:${video_file_id}`, { event_id, video_file_id }))
  if (affected === 1 && started.already) {
    // Its workflow ran before, and put the event back.
    throw new BizError('CLIP_REFUSED', `The clip ${video_file_id} does not show this crossing; bind another.`, {
      status: 409,
      details: { workflow_id: started.workflowId },
    })
  }
  return { event_id, bound: true, status: BOUND, video_file_id, workflow_id: started.workflowId }
}
