import type { ScriptCtx } from '@oncehost/sdk/plugin'

interface Input {
  reference: string
  customer: string
  amountCents: number
  key: string
}

/**
 * Charges what the order came to when it was held. The payment service serves many tenants and plugins, so the key is the
 * step's whole one, with tenant and plugin in front. Nothing is looked up here: each try sends the very same, so that a
 * charge whose answer was lost is neither made twice nor taken for another one.
 */
export async function handle({ reference, customer, amountCents, key }: Input, ctx: ScriptCtx) {
  const response = await fetch(String(ctx.settings['payment_url']), {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'idempotency-key': key },
    body: JSON.stringify({ reference, customer, amount_cents: amountCents }),
    signal: run.signal,
  })
  if (response.status === 402) return { charged: false }
  if (!response.ok) throw new Error(`The payment service answered ${response.status}.`)
  const { charge_id } = await response.json() as { charge_id: string }
  return { charged: true, chargeId: charge_id }
}
