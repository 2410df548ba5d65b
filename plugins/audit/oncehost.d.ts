// Written by oncehost from schema.sql, flows/ and handlers/: by `dev` on each reload, and by `oncehost types`.
// The host does not read it. What you change here is lost.
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
        id?: string | undefined
        event_id: string
        what: string
        subject?: string | null | undefined
        done_by?: string | null | undefined
        happened_at: string | Date
        details?: unknown
      }
    }
  }
}
