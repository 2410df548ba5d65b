import type { ActionConfig, Row, Where } from '@oncehost/sdk/plugin'
import { must } from '../../lib/must.ts'
import { TEXT } from '../../lib/text.ts'

export const config = {
  kind: 'read',
  input: {
    type: 'object',
    additionalProperties: false,
    properties: {
      customer: { type: 'string', pattern: TEXT },
      status: { type: 'array', items: { enum: ['open', 'paid', 'cancelled'] } },
      number_prefix: { type: 'string', pattern: TEXT, minLength: 1 },
      min_total_cents: { type: 'integer' },
      sort: { enum: ['newest', 'oldest', 'largest'] },
      limit: { type: 'integer', minimum: 1, maximum: 1000 },
      cursor: { type: 'string', minLength: 1, description: 'next_cursor of the page before' },
    },
  },
} satisfies ActionConfig

interface Query {
  customer?: string
  status?: string[]
  number_prefix?: string
  min_total_cents?: number
  sort?: 'newest' | 'oldest' | 'largest'
  limit?: number
  cursor?: string
}

interface Page {
  orders: readonly Row<'customer_order'>[]
  next_cursor: string | null
}

/** A page of orders. The next page is asked for with the same filters, the same sort, and `cursor`. */
export function handle(query: Query): Page {
  const where: Where<'customer_order'> = {}
  if (query.customer !== undefined) where.customer = { eq: query.customer }
  if (query.status !== undefined) where.status = { in: query.status }
  if (query.number_prefix !== undefined) where.order_number = { startsWith: query.number_prefix }
  if (query.min_total_cents !== undefined) where.total_cents = { gte: query.min_total_cents }
  const page = store.list('customer_order', {
    where,
    orderBy: sorted(query.sort ?? 'newest'),
    limit: query.limit,
    cursor: query.cursor,
  })
  if (!page.ok && page.error.code === 'CONTRACT' && query.cursor !== undefined) {
    // The rest of the query is ours, so what breaks the rules is the caller's cursor.
    throw new BizError('BAD_CURSOR', 'cursor is not the next_cursor of a page with these filters and this sort', { status: 422 })
  }
  const { records, nextCursor } = must(page)
  return { orders: records, next_cursor: nextCursor }
}

function sorted(by: 'newest' | 'oldest' | 'largest') {
  switch (by) {
    case 'newest':
      return { createdAt: 'desc' } as const
    case 'oldest':
      return { createdAt: 'asc' } as const
    case 'largest':
      return [{ total_cents: 'desc' }, { createdAt: 'desc' }] as const
  }
}
