import type { ActionConfig, HandlerCtx } from '@oncehost/sdk/plugin'
import { must } from '../../lib/must.ts'
import { addLine, findOrder, linesOf, publish, type Wanted } from '../../lib/order.ts'
import { TEXT } from '../../lib/text.ts'

export const config = {
  key: 'required',
  input: {
    type: 'object',
    required: ['order_number', 'customer', 'lines'],
    properties: {
      order_number: { type: 'string', pattern: TEXT, minLength: 1, maxLength: 100 },
      customer: { type: 'string', pattern: TEXT, minLength: 1, maxLength: 200 },
      ship_to: { type: 'object' },
      lines: {
        type: 'array',
        minItems: 1,
        maxItems: 100,
        items: {
          type: 'object',
          required: ['sku', 'quantity'],
          properties: {
            sku: { type: 'string', pattern: TEXT, minLength: 1 },
            quantity: { type: 'integer', minimum: 1, maximum: 10000 },
          },
        },
      },
    },
  },
} satisfies ActionConfig

interface Order {
  order_number: string
  customer: string
  ship_to?: unknown
  lines: Wanted[]
}

interface Made {
  order_id: string
  created: boolean
  status: string
  total_cents: number
  lines: number
}

/** Makes an order with its lines, once for each order_number, and tells both the shop and the audit. */
export function handle({ order_number, customer, ship_to, lines }: Order, ctx: HandlerCtx): Made {
  const { record, created } = must(store.createIfAbsent(
    'customer_order',
    { order_number, customer, ship_to },
    ['order_number'],
  ))
  if (created) {
    for (const line of lines) addLine(record.id, line)
    publish(ctx, 'orders.order-created', findOrder(record.id))
  }
  const { status, total_cents } = findOrder(record.id)
  return { order_id: record.id, created, status, total_cents, lines: linesOf(record.id).length }
}
