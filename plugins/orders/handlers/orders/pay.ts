import type { ActionConfig, HandlerCtx } from '@oncehost/sdk/plugin'
import { must } from '../../lib/must.ts'
import { findOrder, notOpen, publish } from '../../lib/order.ts'
import { TEXT } from '../../lib/text.ts'

export const config = {
  key: 'required',
  input: {
    type: 'object',
    required: ['order_id', 'amount_cents'],
    properties: {
      order_id: { type: 'string', pattern: TEXT, minLength: 1 },
      amount_cents: { type: 'integer', minimum: 0 },
    },
  },
} satisfies ActionConfig

interface Outcome {
  order_id: string
  paid: boolean
  status: string
  paid_at: string | null
}

/** Takes a payment of an open order in hand, to the cent. Of racing payments one is taken. */
export function handle({ order_id, amount_cents }: { order_id: string; amount_cents: number }, ctx: HandlerCtx): Outcome {
  const { affected } = must(store.update(
    'customer_order',
    { id: { eq: order_id }, status: { eq: 'open' }, charging_cents: { isNull: true }, total_cents: { eq: amount_cents } },
    { status: 'paid', paid_at: ctx.now },
  ))
  const order = findOrder(order_id)
  if (affected === 0) {
    if (order.status === 'open' && order.charging_cents !== null) throw notOpen(order_id)
    if (order.status === 'open') {
      throw new BizError('WRONG_AMOUNT', `The order comes to ${order.total_cents} cents, not ${amount_cents}.`, {
        status: 409,
        details: { total_cents: order.total_cents },
      })
    }
    return { order_id, paid: false, status: order.status, paid_at: order.paid_at }
  }
  publish(ctx, 'orders.order-paid', order)
  return { order_id, paid: true, status: order.status, paid_at: order.paid_at }
}
