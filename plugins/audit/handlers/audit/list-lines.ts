import type { ActionConfig, Row, Where } from '@oncehost/sdk/plugin'
import { must } from '../../lib/must.ts'

export const config = {
  kind: 'read',
  input: {
    type: 'object',
    additionalProperties: false,
    properties: {
      subject: { type: 'string', pattern: '^[^\\u0000]*$' },
      what: { type: 'string', pattern: '^[^\\u0000]*$' },
      limit: { type: 'integer', minimum: 1, maximum: 1000 },
      cursor: { type: 'string', minLength: 1, description: 'next_cursor of the page before' },
    },
  },
} satisfies ActionConfig

interface Query {
  subject?: string
  what?: string
  limit?: number
  cursor?: string
}

interface Page {
  lines: readonly Row<'audit_line'>[]
  next_cursor: string | null
}

/** A page of the audit, in the order in which things happened. */
export function handle(query: Query): Page {
  const where: Where<'audit_line'> = {}
  if (query.subject !== undefined) where.subject = { eq: query.subject }
  if (query.what !== undefined) where.what = { eq: query.what }
  const page = store.list('audit_line', {
    where,
    orderBy: { happened_at: 'asc' },
    limit: query.limit,
    cursor: query.cursor,
  })
  if (!page.ok && page.error.code === 'CONTRACT' && query.cursor !== undefined) {
    // The rest of the query is ours, so what breaks the rules is the caller's cursor.
    throw new BizError('BAD_CURSOR', 'cursor is not the next_cursor of a page with these filters', { status: 422 })
  }
  const { records, nextCursor } = must(page)
  return { lines: records, next_cursor: nextCursor }
}
