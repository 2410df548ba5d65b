import { BOUND, PENDING, findEvent } from './event.ts'
import { must } from './must.ts'

/** What became of a binding. */
export interface Outcome {
  event_id: string
  bound: boolean
  status: string
  video_file_id: string | null
  workflow_id: string | null
}

/**
 * Binds a video to an event that waits for one, and starts what comes after. Of racing callers one binds; the others
 * learn what is bound.
 */
export function bind(eventId: string, videoFileId: string): Outcome {
  const { affected } = must(store.update(
    'lane_change_event',
    { id: { eq: eventId }, status: { eq: PENDING } },
    { status: BOUND, video_file_id: videoFileId },
  ))
  if (affected === 0) {
    // Somebody was here before. The same binding, still waiting to be pushed, may go on: the start below is once
    // for event and file. Anything else has its own course already.
    const event = findEvent(eventId)
    if (event.status !== BOUND || event.video_file_id !== videoFileId) {
      return { event_id: eventId, bound: false, status: event.status, video_file_id: event.video_file_id, workflow_id: null }
    }
  }
  const seed = { event_id: eventId, video_file_id: videoFileId }
  const started = must(flow.start('lane-change-postprocess', `${eventId}:${videoFileId}`, seed))
  if (affected === 1 && started.already) {
    // Its workflow ran before, and put the event back.
    throw new BizError('CLIP_REFUSED', `The clip ${videoFileId} does not show this crossing; bind another.`, {
      status: 409,
      details: { workflow_id: started.workflowId },
    })
  }
  if (affected === 1) publishStatus(eventId, BOUND, videoFileId)
  return { event_id: eventId, bound: true, status: BOUND, video_file_id: videoFileId, workflow_id: started.workflowId }
}

/** Tells that an event came to a state with a clip, once for each. */
export function publishStatus(eventId: string, status: string, videoFileId: string) {
  must(notify.publish(
    'lane-change.status-changed',
    { event_id: eventId, status, video_file_id: videoFileId },
    { eventKey: `${status}:${eventId}:${videoFileId}`, subject: eventId },
  ))
}
