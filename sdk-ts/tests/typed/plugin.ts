// What the types allow and refuse where a plugin has declared its tables and flows.
import type { NewRow, Row, Where } from '@oncehost/sdk/plugin'

declare module '@oncehost/sdk/plugin' {
  interface Tables {
    camera: {
      record: { id: string; name: string; shots: number; note: string | null; seen_at: string; createdAt: string; updatedAt: string }
      insert: { id?: string; name: string; shots?: number; note?: string | null; seen_at: string | Date }
    }
  }
  interface Flows {
    report: { camera_id: string; day: string }
    sweep: {}
  }
}

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false
function holds<_T extends true>(): void {}

export function records_have_the_columns() {
  const found = store.get('camera', { name: { eq: 'north' } })
  if (!found.ok || found.data === null) return
  holds<Equal<typeof found.data, Row<'camera'>>>()
  holds<Equal<typeof found.data.note, string | null>>()
  // @ts-expect-error no such column
  found.data.title
  // @ts-expect-error the script's name is createdAt
  found.data.created_at
}

export function a_table_that_is_not_declared_is_refused() {
  // @ts-expect-error did you mean camera
  store.get('cameras', { name: { eq: 'north' } })
}

export function new_records_have_columns_only() {
  store.createIfAbsent('camera', { name: 'north', seen_at: new Date() }, ['name'])
  // @ts-expect-error seen_at is missing
  store.createIfAbsent('camera', { name: 'north' }, ['name'])
  // @ts-expect-error no such column
  store.createIfAbsent('camera', { name: 'north', seen_at: '', size: 1 }, ['name'])
  // @ts-expect-error the host fills it
  store.createIfAbsent('camera', { name: 'north', seen_at: '', createdAt: '' }, ['name'])
  // @ts-expect-error uniqueBy names columns
  store.createIfAbsent('camera', { name: 'north', seen_at: '' }, ['title'])
  // @ts-expect-error uniqueBy is an array
  store.createIfAbsent('camera', { name: 'north', seen_at: '' }, 'name')
}

export function conditions_have_the_type_of_their_column() {
  const where: Where<'camera'> = { shots: { gt: 3 }, or: [{ note: { isNull: true } }, { note: { startsWith: 'x' } }] }
  where.createdAt = { lt: new Date(), gte: '2026-01-01T00:00:00Z' }
  store.list('camera', { where, orderBy: { createdAt: 'desc' } })
  // @ts-expect-error a bare value
  store.get('camera', { name: 'north' })
  // @ts-expect-error a number column
  store.get('camera', { shots: { eq: 'three' } })
  // @ts-expect-error no such column
  store.get('camera', { title: { eq: 'north' } })
  // @ts-expect-error no such operator
  store.get('camera', { name: { like: 'n%' } })
  // @ts-expect-error null is asked for with isNull
  store.get('camera', { note: { eq: null } })
  // @ts-expect-error text columns only
  store.get('camera', { shots: { startsWith: '1' } })
  // @ts-expect-error inside or as well
  store.get('camera', { or: [{ title: { eq: 'x' } }] })
  // @ts-expect-error no such column to order by
  store.list('camera', { orderBy: { title: 'asc' } })
}

export function numbers_can_be_changed_by_an_amount() {
  store.update('camera', { id: { eq: '1' } }, { shots: { inc: -1 }, note: null })
  // @ts-expect-error not a number column
  store.update('camera', { id: { eq: '1' } }, { name: { inc: 1 } })
  // @ts-expect-error belongs to the host
  store.update('camera', { id: { eq: '1' } }, { updatedAt: 'x' })
}

export function flows_take_their_seed() {
  flow.start('report', 'b1', { camera_id: '1', day: 'monday' })
  flow.start('sweep', 'b2')
  // @ts-expect-error no such flow
  flow.start('reports', 'b1', { camera_id: '1', day: 'monday' })
  // @ts-expect-error a key is missing
  flow.start('report', 'b1', { camera_id: '1' })
  // @ts-expect-error a key too many
  flow.start('report', 'b1', { camera_id: '1', day: 'monday', hour: 1 })
  // @ts-expect-error the seed is missing
  flow.start('report', 'b1')
}

holds<Equal<NewRow<'camera'>['shots'] & {}, number>>()
