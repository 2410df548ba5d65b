// The tables of schema.sql, for the type checker. The host does not read this file.
import '@oncehost/sdk/plugin'

declare module '@oncehost/sdk/plugin' {
  interface Tables {
    audit_line: {
      record: {
        id: string
        event_id: string
        what: string
        subject: string | null
        done_by: string | null
        happened_at: string
        details: unknown
        createdAt: string
      }
      insert: {
        id?: string
        event_id: string
        what: string
        subject?: string | null
        done_by?: string | null
        happened_at: string | Date
        details?: unknown
      }
    }
  }
}
