// What the types allow and refuse where a plugin has declared no tables. `tsc` is the test runner: an expected
// error that does not come is an error itself.
import type { ActionConfig, HandlerCtx, HostError, Result, Row, ScriptCtx } from '@oncehost/sdk/plugin'

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false
function holds<_T extends true>(): void {}

declare const ctx: HandlerCtx
declare const scriptCtx: ScriptCtx

export function result_narrows_on_ok() {
  const made = store.createIfAbsent('camera', { name: 'north' }, ['name'])
  if (!made.ok) {
    holds<Equal<typeof made.error, HostError>>()
    throw made.error
  }
  holds<Equal<typeof made.data.created, boolean>>()
  holds<Equal<typeof made.data.record, Record<string, unknown>>>()
}

export function data_cannot_be_read_before_ok_is_looked_at() {
  const made = store.createIfAbsent('camera', { name: 'north' }, ['name'])
  // @ts-expect-error data may be missing
  made.data.created
}

export function members_of_data_are_not_on_the_result() {
  const made = store.createIfAbsent('camera', { name: 'north' }, ['name'])
  // @ts-expect-error it is made.data.created
  made.created
  // @ts-expect-error it is made.data.record
  made.record
  const changed = store.update('camera', { name: { eq: 'north' } }, { name: 'south' })
  // @ts-expect-error it is changed.data.affected
  changed.affected
  const started = flow.start('report', 'b1', { day: 'monday' })
  // @ts-expect-error it is started.data.already
  started.already
  const published = notify.publish('camera.seen', {})
  // @ts-expect-error it is published.data.already
  published.already
  if (made.ok) {
    // @ts-expect-error also when it went well
    made.created
  }
}

export function results_need_no_await() {
  // @ts-expect-error a Result is no promise
  store.get('camera', { id: { eq: '1' } }).then((row: unknown) => row)
}

export function where_takes_conditions_only() {
  store.get('camera', { id: { eq: '1' }, seen: { gte: new Date(), lt: '2026-01-01T00:00:00Z' } })
  store.count('camera', { or: [{ name: { startsWith: 'n' } }, { name: { isNull: true } }] })
  store.delete('camera', { size: { in: [1, 2n], notIn: [3] } })
  // @ts-expect-error a bare value
  store.get('camera', { id: '1' })
  // @ts-expect-error an unknown operator
  store.get('camera', { id: { equals: '1' } })
  // @ts-expect-error undefined
  store.get('camera', { id: undefined })
  // @ts-expect-error undefined inside a condition
  store.get('camera', { id: { eq: undefined } })
  // @ts-expect-error null is asked for with isNull
  store.get('camera', { id: { eq: null } })
  // @ts-expect-error in takes an array
  store.get('camera', { id: { in: '1' } })
}

export function list_options_may_be_undefined() {
  const cursor: string | undefined = undefined
  const page = store.list('camera', { where: undefined, orderBy: { name: 'asc' }, limit: 10, cursor })
  if (page.ok) holds<Equal<typeof page.data.nextCursor, string | null>>()
  store.list('camera')
  store.list('camera', { orderBy: [{ name: 'desc' }, { createdAt: 'asc' }] })
  // @ts-expect-error neither asc nor desc
  store.list('camera', { orderBy: { name: 'up' } })
}

export function get_may_find_nothing() {
  const found = store.get('camera', { id: { eq: '1' } })
  if (found.ok) holds<Equal<typeof found.data, Row | null>>()
}

export function config_is_checked() {
  const config = {
    kind: 'write',
    key: 'required',
    replay: 'response',
    transient: ['requestedAt'],
    input: { type: 'object', required: ['name'], properties: { name: { type: 'string' } } },
  } satisfies ActionConfig
  holds<Equal<typeof config.key, 'required'>>()
  // @ts-expect-error an unknown field
  const unknownField = { keys: 'required' } satisfies ActionConfig
  // @ts-expect-error an unknown value
  const unknownValue = { kind: 'mutation' } satisfies ActionConfig
  return [config, unknownField, unknownValue]
}

export function ctx_members_are_plain_and_read_only() {
  holds<Equal<typeof ctx.idempotencyKey, string | undefined>>()
  holds<Equal<typeof ctx.now, string>>()
  const id: string = ctx.stableId('row')
  // @ts-expect-error read only
  ctx.tenantId = 'other'
  // @ts-expect-error the caller may be nobody
  ctx.user.subject
  return id
}

export function errors_compare_by_known_codes(made: Result<unknown>) {
  if (made.ok) return
  if (made.error.code === 'DUPLICATE') throw made.error
  // @ts-expect-error no such code
  if (made.error.code === 'DUPLICATED') throw made.error
}

export function biz_error_and_discard_can_be_thrown() {
  if (ctx.user === null) throw new Discard('no caller')
  throw new BizError('REGION_CLOSED', 'The region takes no events.', { status: 409, details: { region: 1 } })
}

export function invoke_is_for_flow_steps() {
  void invoke(scriptCtx, 'orders', 'orders.pay', {}, { idempotencyKey: run.idempotencyKey })
  // @ts-expect-error in a handler: move it to a flow step
  void invoke(ctx, 'orders', 'orders.pay', {}, { idempotencyKey: 'k' })
  // @ts-expect-error the key is not optional
  void invoke(scriptCtx, 'orders', 'orders.pay', {})
}

export async function fetch_gives_a_response() {
  const response = await fetch('https://example.com', { method: 'POST', body: 'x', signal: run.signal })
  holds<Equal<typeof response.ok, boolean>>()
  holds<Equal<typeof run.attempt, number>>()
  holds<Equal<ReturnType<typeof secret>, string>>()
}

export async function globals_of_the_web_are_typed() {
  const url = new URL('/a?b=c', 'https://example.com')
  holds<Equal<typeof url.searchParams, URLSearchParams>>()
  for (const [name, value] of new URLSearchParams({ b: 'c' })) url.searchParams.set(name, value)
  const bytes = new TextEncoder().encode(url.href)
  holds<Equal<ReturnType<TextDecoder['decode']>, string>>()
  const digest = await crypto.subtle.digest('SHA-256', bytes)
  queueMicrotask(() => console.log(crypto.randomUUID(), btoa(atob('YQ==')), crypto.getRandomValues(new Uint8Array(2))))
  // @ts-expect-error only digests are there
  void crypto.subtle.sign
  // @ts-expect-error no files to name
  void URL.createObjectURL
  return structuredClone({ digest, text: new TextDecoder('utf-16le', { fatal: true }).decode(bytes) })
}

export function what_the_realm_lacks_is_not_typed() {
  // @ts-expect-error no timers
  setTimeout
  // @ts-expect-error no Node
  process
  // @ts-expect-error no DOM
  document
}
