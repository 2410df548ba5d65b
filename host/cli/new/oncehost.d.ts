// Written by oncehost from schema.sql, flows/ and handlers/: by `dev` on each reload, and by `oncehost types`.
// The host does not read it. What you change here is lost.
import '@oncehost/sdk/plugin'

declare module '@oncehost/sdk/plugin' {
  interface Tables {
    note: {
      record: { id: string; title: string; text: string | null; createdAt: string; updatedAt: string }
      insert: { id?: string | undefined; title: string; text?: string | null | undefined }
    }
  }
}
