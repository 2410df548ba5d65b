import type { ActionConfig, Row, Where } from '@oncehost/sdk/plugin'
import { INSTANT, INSTANT_FORM } from '../../lib/instant.ts'
import { must } from '../../lib/must.ts'
import { TEXT } from '../../lib/text.ts'

export const config = {
  kind: 'read',
  input: {
    type: 'object',
    additionalProperties: false,
    properties: {
      region_id: { type: 'string', pattern: TEXT },
      obj_id: { type: 'string', pattern: TEXT },
      status: { enum: ['pending_video', 'video_bound', 'pushed'] },
      from: { type: 'string', format: 'date-time', pattern: INSTANT, description: `crossed at this instant or later: ${INSTANT_FORM}` },
      until: { type: 'string', format: 'date-time', pattern: INSTANT, description: `crossed before this instant: ${INSTANT_FORM}` },
      newest_first: { type: 'boolean' },
      limit: { type: 'integer', minimum: 1, maximum: 1000 },
      cursor: { type: 'string', minLength: 1, description: 'next_cursor of the page before' },
    },
  },
} satisfies ActionConfig

interface Query {
  region_id?: string
  obj_id?: string
  status?: string
  from?: string
  until?: string
  newest_first?: boolean
  limit?: number
  cursor?: string
}

interface Page {
  events: readonly Row<'lane_change_event'>[]
  next_cursor: string | null
}

/** A page of events by the time of crossing. The next page is asked for with the same filters and `cursor`. */
export function handle(query: Query): Page {
  const where: Where<'lane_change_event'> = {}
  if (query.region_id !== undefined) where.region_id = { eq: query.region_id }
  if (query.obj_id !== undefined) where.obj_id = { eq: query.obj_id }
  if (query.status !== undefined) where.status = { eq: query.status }
  const span: { gte?: string; lt?: string } = {}
  if (query.from !== undefined) span.gte = query.from
  if (query.until !== undefined) span.lt = query.until
  if (query.from !== undefined || query.until !== undefined) where.crossed_at = span
  const page = store.list('lane_change_event', {
    where,
    orderBy: { crossed_at: query.newest_first === true ? 'desc' : 'asc' },
    limit: query.limit,
    cursor: query.cursor,
  })
  if (!page.ok && page.error.code === 'CONTRACT' && query.cursor !== undefined) {
    // The rest of the query is ours, so what breaks the rules is the caller's cursor.
    throw new BizError('BAD_CURSOR', 'cursor is not the next_cursor of a page with these filters', { status: 422 })
  }
  const { records, nextCursor } = must(page)
  return { events: records, next_cursor: nextCursor }
}
