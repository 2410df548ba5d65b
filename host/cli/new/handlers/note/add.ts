import type { ActionConfig } from '@oncehost/sdk/plugin'

export const config = {
  // The caller makes a key before its first try and keeps it on every retry: then this is done once.
  key: 'required',
  input: {
    type: 'object',
    required: ['title'],
    properties: {
      title: { type: 'string', minLength: 1, maxLength: 200, examples: ['Buy milk'] },
      text: { type: 'string' },
    },
  },
} satisfies ActionConfig

/** Makes the note of this title, or finds the one that is there. */
export function handle(input: { title: string; text?: string }): { note_id: string; created: boolean } {
  const made = store.createIfAbsent('note', { title: input.title, text: input.text }, ['title'])
  if (!made.ok) throw made.error
  return { note_id: made.data.record.id, created: made.data.created }
}
