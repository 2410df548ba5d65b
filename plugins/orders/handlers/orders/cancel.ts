import type { ActionConfig, HandlerCtx } from '@oncehost/sdk/plugin'
import { must } from '../../lib/must.ts'
import { findOrder, linesOf, publish } from '../../lib/order.ts'
import { TEXT } from '../../lib/text.ts'

export const config = {
  key: 'required',
  input: {
    type: 'object',
    required: ['order_id'],
    properties: { order_id: { type: 'string', pattern: TEXT, minLength: 1 } },
  },
} satisfies ActionConfig

interface Outcome {
  order_id: string
  cancelled: boolean
  status: string
}

/** Cancels an open order and puts its goods back into stock. */
export function handle({ order_id }: { order_id: string }, ctx: HandlerCtx): Outcome {
  const { affected } = must(store.update(
    'customer_order',
    { id: { eq: order_id }, status: { eq: 'open' } },
    { status: 'cancelled' },
  ))
  const order = findOrder(order_id)
  if (affected === 1) {
    for (const { sku, quantity } of linesOf(order_id)) {
      must(store.update('product', { sku: { eq: sku } }, { on_hand: { inc: quantity } }))
    }
    publish(ctx, 'orders.order-cancelled', order)
  }
  return { order_id, cancelled: affected === 1, status: order.status }
}
