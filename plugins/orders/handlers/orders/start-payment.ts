import type { ActionConfig } from '@oncehost/sdk/plugin'
import { must } from '../../lib/must.ts'
import { findOrder, notOpen } from '../../lib/order.ts'
import { TEXT } from '../../lib/text.ts'

export const config = {
  key: 'required',
  input: {
    type: 'object',
    required: ['order_id'],
    properties: { order_id: { type: 'string', pattern: TEXT, minLength: 1 } },
  },
} satisfies ActionConfig

interface Started {
  order_id: string
  workflow_id: string
  status: string
}

/** Has an open order charged and paid in the background, once for each order. */
export function handle({ order_id }: { order_id: string }): Started {
  const order = findOrder(order_id)
  const started = must(flow.start('order-payment', order_id, { order_id }))
  if (!started.already && order.status !== 'open') throw notOpen(order_id)
  if (started.status === 'cancelled' && order.status === 'open') {
    throw new BizError('PAYMENT_CANCELLED', `The payment of order ${order_id} was cancelled and is not begun again; take it in hand with orders.pay.`, {
      status: 409,
    })
  }
  return { order_id, workflow_id: started.workflowId, status: started.status }
}
