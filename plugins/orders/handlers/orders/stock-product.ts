import type { ActionConfig, HandlerCtx } from '@oncehost/sdk/plugin'
import { must } from '../../lib/must.ts'
import { TEXT } from '../../lib/text.ts'

export const config = {
  key: 'required',
  input: {
    type: 'object',
    required: ['sku', 'name', 'price_cents', 'quantity'],
    properties: {
      sku: { type: 'string', pattern: TEXT, minLength: 1, maxLength: 100 },
      name: { type: 'string', pattern: TEXT, minLength: 1, maxLength: 200 },
      price_cents: { type: 'integer', minimum: 0, maximum: 100000000000 },
      quantity: { type: 'integer', minimum: 0, maximum: 1000000000 },
    },
  },
} satisfies ActionConfig

interface Delivery {
  sku: string
  name: string
  price_cents: number
  quantity: number
}

interface Stock {
  product_id: string
  on_hand: number
}

/** Goods came in: makes the product or brings its name and price up to date, and adds to its stock. */
export function handle({ sku, name, price_cents, quantity }: Delivery, _ctx: HandlerCtx): Stock {
  const { record } = must(store.createIfAbsent('product', { sku, name, price_cents }, ['sku']))
  must(store.update('product', { id: { eq: record.id } }, { name, price_cents, on_hand: { inc: quantity } }))
  return { product_id: record.id, on_hand: record.on_hand + quantity }
}
