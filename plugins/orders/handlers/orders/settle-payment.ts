import type { ActionConfig, HandlerCtx } from '@oncehost/sdk/plugin'
import { endPayment, publish, restock } from '../../lib/order.ts'
import { mustBeStep } from '../../lib/step.ts'
import { TEXT } from '../../lib/text.ts'

export const config = {
  key: 'required',
  input: {
    type: 'object',
    required: ['order_id', 'charged'],
    properties: {
      order_id: { type: 'string', pattern: TEXT, minLength: 1 },
      charged: { type: 'boolean' },
    },
  },
} satisfies ActionConfig

interface Outcome {
  order_id: string
  status: string
}

/** The last step of a payment: what was charged is paid, what was declined is cancelled and goes back into stock. */
export function handle({ order_id, charged }: { order_id: string; charged: boolean }, ctx: HandlerCtx): Outcome {
  mustBeStep(ctx, order_id, 'settle')
  const order = endPayment(order_id, charged ? { status: 'paid', paid_at: ctx.now } : { status: 'cancelled' })
  if (!charged) restock(order_id)
  publish(ctx, charged ? 'orders.order-paid' : 'orders.order-cancelled', order)
  return { order_id, status: order.status }
}
