import type { HandlerCtx } from '@oncehost/sdk/plugin'

/**
 * Refuses whoever is not this step of the order's payment. Callers of `serve` have a user, and steps have none; in `dev`,
 * where nobody has one, the step's key is what tells them apart.
 */
export function mustBeStep(ctx: HandlerCtx, orderId: string, step: string) {
  if (ctx.user !== null || ctx.idempotencyKey !== `order-payment-${orderId}:${step}`) {
    throw new BizError('PAYMENT_STEP_ONLY', 'Only the payment of an order does this; call orders.start-payment.', { status: 403 })
  }
}
