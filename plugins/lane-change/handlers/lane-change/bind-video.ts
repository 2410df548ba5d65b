import type { ActionConfig, HandlerCtx } from '@oncehost/sdk/plugin'
import { type Outcome, bind } from '../../lib/bind.ts'
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

/** Binds a video to an event that waits for one, and starts what comes after. Of racing callers one binds. */
export function handle({ event_id, video_file_id }: Binding, _ctx: HandlerCtx): Outcome {
  return bind(event_id, video_file_id)
}
