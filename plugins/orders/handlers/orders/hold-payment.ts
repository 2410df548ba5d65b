import type { ActionConfig, HandlerCtx } from '@oncehost/sdk/plugin'
import { must } from '../../lib/must.ts'
import { findOrder } from '../../lib/order.ts'
import { mustBeStep } from '../../lib/step.ts'
import { TEXT } from '../../lib/text.ts'

export const config = {
  key: 'required',
  input: {
    type: 'object',
    required: ['order_id'],
    properties: { order_id: { type: 'string', pattern: TEXT, minLength: 1 } },
  },
} satisfies ActionConfig

interface Held {
  order_id: string
  held: boolean
  status: string
  order_number: string
  customer: string
  amount_cents: number
}

/** The first step of a payment: from here on the order takes no changes, so that what is charged is what it comes to. */
export function handle({ order_id }: { order_id: string }, ctx: HandlerCtx): Held {
  mustBeStep(ctx, order_id, 'hold')
  const { status, order_number, customer, total_cents } = findOrder(order_id)
  const { affected } = must(store.update(
    'customer_order',
    { id: { eq: order_id }, status: { eq: 'open' }, charging_cents: { isNull: true } },
    { charging_cents: total_cents },
  ))
  return { order_id, held: affected === 1, status, order_number, customer, amount_cents: total_cents }
}
