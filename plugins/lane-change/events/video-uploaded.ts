import type { CloudEvent } from '@oncehost/sdk/plugin'
import { bind } from '../lib/bind.ts'

interface Uploaded {
  event_id: string
  video_file_id: string
}

/** A clip was uploaded: it is bound to the crossing it shows. */
export function handle(event: CloudEvent<Uploaded>) {
  const { event_id, video_file_id } = event.data ?? {}
  // What is malformed stays so. A crossing that is not there yet may come: that is thrown, and tried again.
  if (typeof event_id !== 'string' || typeof video_file_id !== 'string' || video_file_id === '' || video_file_id.length > 200) {
    throw new Discard('video.uploaded needs event_id and video_file_id')
  }
  try {
    bind(event_id, video_file_id)
  } catch (error) {
    // Nor does a clip change that was looked at and put back.
    throw error instanceof BizError && error.status === 409 ? new Discard(error.message) : error
  }
}
