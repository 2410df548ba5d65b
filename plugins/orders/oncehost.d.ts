// Written by oncehost from schema.sql, flows/ and handlers/: by `dev` on each reload, and by `oncehost types`.
// The host does not read it. What you change here is lost.
import '@oncehost/sdk/plugin'

declare module '@oncehost/sdk/plugin' {
  interface Tables {
    customer_order: {
      record: {
        id: string
        order_number: string
        customer: string
        status: string
        total_cents: number
        ship_to: unknown
        paid_at: string | null
        charging_cents: number | null
        createdAt: string
        updatedAt: string
      }
      insert: {
        id?: string | undefined
        order_number: string
        customer: string
        status?: string | undefined
        total_cents?: number | bigint | undefined
        ship_to?: unknown
        paid_at?: string | Date | null | undefined
        charging_cents?: number | bigint | null | undefined
      }
    }
    order_line: {
      record: { id: string; order_id: string; sku: string; quantity: number; price_cents: number }
      insert: {
        id?: string | undefined
        order_id: string
        sku: string
        quantity: number | bigint
        price_cents: number | bigint
      }
    }
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
      insert: {
        id?: string | undefined
        sku: string
        name: string
        price_cents: number | bigint
        on_hand?: number | bigint | undefined
      }
    }
  }

  interface Flows {
    'order-payment': { order_id: unknown }
  }

  interface Topics {
    'audit.recorded': unknown
  }
}
