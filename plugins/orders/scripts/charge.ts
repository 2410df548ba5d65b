import type { ScriptCtx } from '@oncehost/sdk/plugin'
import { findOrder } from '../lib/order.ts'

interface Input {
  orderId: string
  key: string
}

/**
 * Charges what an order comes to. The payment service serves many tenants and plugins, so the key is the step's whole
 * one, with tenant and plugin in front. The order's facts are the same on every try: a charge whose answer was lost is
 * not made twice.
 */
export async function handle({ orderId, key }: Input, ctx: ScriptCtx) {
  const order = findOrder(orderId)
  if (order.status !== 'open') return { charged: false, reason: `order is ${order.status}` }
  const response = await fetch(String(ctx.settings['payment_url']), {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'idempotency-key': key },
    body: JSON.stringify({ reference: order.order_number, customer: order.customer, amount_cents: order.total_cents }),
    signal: run.signal,
  })
  if (response.status === 402) return { charged: false, reason: 'declined' }
  if (!response.ok) throw new Error(`The payment service answered ${response.status}.`)
  const { charge_id } = await response.json() as { charge_id: string }
  return { charged: true, chargeId: charge_id, amountCents: order.total_cents }
}
