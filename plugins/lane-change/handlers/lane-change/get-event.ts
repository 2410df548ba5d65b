import type { ActionConfig, Row } from '@oncehost/sdk/plugin'
import { findEvent } from '../../lib/event.ts'
import { TEXT } from '../../lib/text.ts'

export const config = {
  kind: 'read',
  input: {
    type: 'object',
    required: ['event_id'],
    properties: { event_id: { type: 'string', pattern: TEXT, minLength: 1 } },
  },
} satisfies ActionConfig

/** One event, whole. */
export function handle(input: { event_id: string }): Row<'lane_change_event'> {
  return findEvent(input.event_id)
}
