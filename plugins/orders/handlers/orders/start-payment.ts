import type { ActionConfig } from '@oncehost/sdk/plugin'
import { must } from '../../lib/must.ts'
import { findOrder, notOpen } from '../../lib/order.ts'

export const config = {
  key: 'required',
  input: {
    type: 'object',
    required: ['order_id'],
    properties: { order_id: { type: 'string', minLength: 1 } },
  },
} satisfies ActionConfig

/** Has an open order charged and paid in the background, once for each order. */
export function handle({ order_id }: { order_id: string }) {
  const order = findOrder(order_id)
  const started = must(flow.start('order-payment', order_id, { order_id }))
  if (!started.already && order.status !== 'open') throw notOpen(order_id)
  return { order_id, workflow_id: started.workflowId, status: started.status }
}
