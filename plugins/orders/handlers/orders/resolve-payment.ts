import type { ActionConfig, HandlerCtx } from '@oncehost/sdk/plugin'
import { must } from '../../lib/must.ts'
import { endPayment, publish } from '../../lib/order.ts'
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

/** Longer than one try of the charge takes: it may have been sent before the workflow was cancelled. */
const CHARGE_MS = 30_000

interface Outcome {
  order_id: string
  status: string
}

/**
 * For a person: ends a payment whose workflow was cancelled, with what the payment service says became of the charge. What
 * was charged is paid; otherwise the order is open again. While the workflow could still charge, this is refused.
 */
export function handle({ order_id, charged }: { order_id: string; charged: boolean }, ctx: HandlerCtx): Outcome {
  const payment = must(flow.get(`order-payment-${order_id}`))
  if (payment !== null && payment.status !== 'cancelled' && payment.status !== 'completed') {
    throw new BizError(
      'PAYMENT_UNDER_WAY',
      `The payment ${payment.workflowId} is ${payment.status}; retry it (oncehost flow retry), or cancel it first (oncehost flow cancel).`,
      { status: 409, details: { status: payment.status } },
    )
  }
  if (payment !== null && Date.parse(ctx.now) - Date.parse(payment.since) < CHARGE_MS) {
    throw new BizError(
      'PAYMENT_UNDER_WAY',
      `The payment ${payment.workflowId} was ${payment.status} a moment ago, and a charge may still be on its way; ask the payment service again in ${CHARGE_MS / 1000} s.`,
      { status: 409, details: { status: payment.status, since: payment.since } },
    )
  }
  const order = endPayment(order_id, charged ? { status: 'paid', paid_at: ctx.now } : {})
  if (charged) publish(ctx, 'orders.order-paid', order)
  return { order_id, status: order.status }
}
