import type { ActionConfig, HandlerCtx } from '@oncehost/sdk/plugin'
import { must } from '../../lib/must.ts'
import { addLine, findOrder, notOpen } from '../../lib/order.ts'
import { TEXT } from '../../lib/text.ts'

export const config = {
  // Adding is no state that could be compared, so only the key tells a retry from a second wish.
  key: 'required',
  input: {
    type: 'object',
    required: ['order_id', 'sku', 'quantity'],
    properties: {
      order_id: { type: 'string', pattern: TEXT, minLength: 1 },
      sku: { type: 'string', pattern: TEXT, minLength: 1 },
      quantity: { type: 'integer', minimum: 1, maximum: 10000 },
    },
  },
} satisfies ActionConfig

interface Added {
  order_id: string
  added_cents: number
  total_cents: number
}

/** Puts more on an open order. */
export function handle({ order_id, sku, quantity }: { order_id: string; sku: string; quantity: number }, _ctx: HandlerCtx): Added {
  const { status, charging_cents } = findOrder(order_id)
  if (status !== 'open' || charging_cents !== null) throw notOpen(order_id)
  const { count } = must(store.count('order_line', { order_id: { eq: order_id }, sku: { ne: sku } }))
  if (count >= 100) throw new BizError('ORDER_FULL', 'An order has 100 lines at most.', { status: 409 })
  const price_cents = addLine(order_id, { sku, quantity })
  return { order_id, added_cents: price_cents, total_cents: findOrder(order_id).total_cents }
}
