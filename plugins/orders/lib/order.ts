import type { Row } from '@oncehost/sdk/plugin'
import { must } from './must.ts'

/** What a caller asks for: a product and how many of it. */
export interface Wanted {
  sku: string
  quantity: number
}

/** The order with this id; one that is not there is the caller's mistake. */
export function findOrder(orderId: string): Row<'customer_order'> {
  const order = must(store.get('customer_order', { id: { eq: orderId } }))
  if (order === null) throw new BizError('ORDER_NOT_FOUND', `There is no order ${orderId}.`, { status: 404 })
  return order
}

/** The lines of an order, by product. 100 is the most that an order may have. */
export function linesOf(orderId: string): readonly Row<'order_line'>[] {
  return must(store.list('order_line', { where: { order_id: { eq: orderId } }, orderBy: { sku: 'asc' } })).records
}

/** Puts the goods of an order back into stock. */
export function restock(orderId: string): void {
  for (const { sku, quantity } of linesOf(orderId)) {
    must(store.update('product', { sku: { eq: sku } }, { on_hand: { inc: quantity } }))
  }
}

/** What refuses a change of an order that is no longer open, or that is being charged. */
export function notOpen(orderId: string): BizError {
  const { status } = findOrder(orderId)
  if (status === 'open') {
    return new BizError('PAYMENT_UNDER_WAY', `Order ${orderId} is being charged and takes no changes until that is known.`, {
      status: 409,
    })
  }
  return new BizError('ORDER_NOT_OPEN', `Order ${orderId} is ${status} and takes no changes.`, {
    status: 409,
    details: { status },
  })
}

/** Ends the payment that holds an order, with what it changes; gives the order as it is then. */
export function endPayment(orderId: string, change: { status?: string; paid_at?: string }): Row<'customer_order'> {
  const { affected } = must(store.update(
    'customer_order',
    { id: { eq: orderId }, status: { eq: 'open' }, charging_cents: { isNull: false } },
    { ...change, charging_cents: null },
  ))
  const order = findOrder(orderId)
  if (affected === 0) {
    throw new BizError('NO_PAYMENT', `Order ${orderId} is ${order.status}, and no payment of it is under way.`, {
      status: 409,
      details: { status: order.status },
    })
  }
  return order
}

/** Takes the goods from stock, puts them on the order and adds their price to its total; gives the price in cents. */
export function addLine(orderId: string, { sku, quantity }: Wanted): number {
  const product = must(store.get('product', { sku: { eq: sku } }))
  if (product === null) throw new BizError('PRODUCT_NOT_FOUND', `There is no product ${sku}.`, { status: 404 })
  // The stock is named in the condition: whoever comes second and finds too little changes nothing.
  const taken = must(store.update(
    'product',
    { sku: { eq: sku }, on_hand: { gte: quantity } },
    { on_hand: { inc: -quantity } },
  ))
  if (taken.affected === 0) {
    throw new BizError('OUT_OF_STOCK', `There are ${product.on_hand} of ${sku}, fewer than ${quantity}.`, {
      status: 409,
      details: { sku, on_hand: product.on_hand },
    })
  }
  const price = product.price_cents * quantity
  const total = must(store.update(
    'customer_order',
    { id: { eq: orderId }, status: { eq: 'open' }, charging_cents: { isNull: true } },
    { total_cents: { inc: price } },
  ))
  if (total.affected === 0) throw notOpen(orderId)
  const line = { order_id: orderId, sku, quantity, price_cents: product.price_cents }
  const { record, created } = must(store.createIfAbsent('order_line', line, ['order_id', 'sku']))
  if (!created) {
    if (record.price_cents !== product.price_cents) {
      throw new BizError('PRICE_CHANGED', `${sku} is on the order at another price; make a new order for more.`, {
        status: 409,
        details: { sku, price_cents: record.price_cents, price_now: product.price_cents },
      })
    }
    must(store.update('order_line', { id: { eq: record.id } }, { quantity: { inc: quantity } }))
  }
  return price
}

/** Publishes what happened to an order, once for those who work with orders and once for the audit. */
export function publish(ctx: { user: { subject: string } | null; now: string }, topic: string, order: Row<'customer_order'>) {
  const { id, order_number, customer, status, total_cents } = order
  must(notify.publish(topic, { order_id: id, order_number, customer, status, total_cents }, { subject: id }))
  must(notify.publish(
    'audit.recorded',
    { what: topic, order_id: id, by: ctx.user?.subject ?? null, at: ctx.now },
    { subject: id },
  ))
}
