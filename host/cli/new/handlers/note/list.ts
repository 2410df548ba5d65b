import type { ActionConfig, Row } from '@oncehost/sdk/plugin'

export const config = {
  // Runs beside everything else, and may not write.
  kind: 'read',
  input: {
    type: 'object',
    properties: { cursor: { type: 'string', minLength: 1, description: 'next_cursor of the page before' } },
  },
} satisfies ActionConfig

/** A page of notes, the newest first. */
export function handle(input: { cursor?: string }): { notes: readonly Row<'note'>[]; next_cursor: string | null } {
  const page = store.list('note', { orderBy: { createdAt: 'desc' }, limit: 50, cursor: input.cursor })
  if (!page.ok) throw page.error
  return { notes: page.data.records, next_cursor: page.data.nextCursor }
}
