// The tables of schema.sql, for the type checker. The host does not read this file.
import '@oncehost/sdk/plugin'

declare module '@oncehost/sdk/plugin' {
  interface Tables {
    note: {
      record: { id: string; title: string; text: string | null; createdAt: string; updatedAt: string }
      insert: { id?: string; title: string; text?: string | null | undefined }
    }
  }
}
