import type { ActionConfig, HandlerCtx } from '@oncehost/sdk/plugin'
import { must } from '../../lib/must.ts'
import { findOrder, notOpen, publish, restock } from '../../lib/order.ts'
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
    { id: { eq: order_id }, status: { eq: 'open' }, charging_cents: { isNull: true } },
    { status: 'cancelled' },
  ))
  const order = findOrder(order_id)
  // Cancelled now, it would be charged all the same.
  if (affected === 0 && order.status === 'open') throw notOpen(order_id)
  if (affected === 1) {
    restock(order_id)
    publish(ctx, 'orders.order-cancelled', order)
  }
  return { order_id, cancelled: affected === 1, status: order.status }
}
