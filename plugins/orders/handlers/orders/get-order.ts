import type { ActionConfig, Row } from '@oncehost/sdk/plugin'
import { findOrder, linesOf } from '../../lib/order.ts'
import { TEXT } from '../../lib/text.ts'

export const config = {
  kind: 'read',
  input: {
    type: 'object',
    required: ['order_id'],
    properties: { order_id: { type: 'string', pattern: TEXT, minLength: 1 } },
  },
} satisfies ActionConfig

/** One order with its lines. */
export function handle({ order_id }: { order_id: string }): Row<'customer_order'> & { lines: readonly Row<'order_line'>[] } {
  return { ...findOrder(order_id), lines: linesOf(order_id) }
}
