// The tables of schema.sql, for the type checker. The host does not read this file.
import '@oncehost/sdk/plugin'

declare module '@oncehost/sdk/plugin' {
  interface Tables {
    product: {
      record: {
        id: string
        sku: string
        name: string
        price_cents: number
        on_hand: number
        createdAt: string
        updatedAt: string
      }
      insert: { id?: string; sku: string; name: string; price_cents: number; on_hand?: number }
    }
    customer_order: {
      record: {
        id: string
        order_number: string
        customer: string
        status: string
        total_cents: number
        ship_to: unknown
        paid_at: string | null
        createdAt: string
        updatedAt: string
      }
      insert: {
        id?: string
        order_number: string
        customer: string
        status?: string
        total_cents?: number
        ship_to?: unknown
        paid_at?: string | Date | null
      }
    }
    order_line: {
      record: { id: string; order_id: string; sku: string; quantity: number; price_cents: number }
      insert: { id?: string; order_id: string; sku: string; quantity: number; price_cents: number }
    }
  }

  interface Flows {
    'order-payment': { order_id: string }
  }
}
