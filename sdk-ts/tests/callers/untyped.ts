// What callers can write before any types are generated. `tsc` is the test runner: an expected error that does not
// come is an error itself.
import { createContext, invoke, invokeRaw, keyStore, OncehostError, subscribe } from '@oncehost/sdk'

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false
function holds<_T extends true>(): void {}

export async function the_readme_example_needs_no_types(session: { token: string }) {
  const ctx = createContext({ baseUrl: 'https://host.example', token: () => session.token })
  const { event_id, created } = await invoke(ctx, 'lane-change', 'lane-change.create-event', { a: 1 }, { idempotencyKey: 'k' })
  const raw = await invokeRaw(ctx, 'orders', 'orders.list-orders', {}, { read: true, deadline: 5_000 })
  holds<Equal<typeof raw.expires, Date | undefined>>()
  return [event_id, created, raw.data.orders]
}

export function options_are_checked(ctx: ReturnType<typeof createContext>, signal: AbortSignal) {
  void invoke(ctx, 'orders', 'orders.pay', {}, { idempotencyKey: 'k', signal })
  // @ts-expect-error it is idempotencyKey
  void invoke(ctx, 'orders', 'orders.pay', {}, { key: 'k' })
  // @ts-expect-error a key is a text
  void invoke(ctx, 'orders', 'orders.pay', {}, { idempotencyKey: 7 })
  // @ts-expect-error there is no host without an address
  createContext({ token: 'x' })
}

export function errors_compare_by_known_codes(error: unknown) {
  if (!(error instanceof OncehostError)) throw error
  // A plugin's own names are names too.
  return error.code === 'KEY_REUSED' || error.code === 'REGION_CLOSED' ? error.fields[0]?.pointer : error.requestId
}

export function a_storage_of_any_kind_keeps_keys(ctx: ReturnType<typeof createContext>) {
  const keys = keyStore(localStorage, { scope: 'ada' })
  for (const intent of keys.unfinished()) void keys.resume(ctx, intent)
  // @ts-expect-error a key store is for writes
  void keys.invoke(ctx, 'orders', 'orders.pay', {}, { read: true })
}

export function a_subscription_has_a_place(ctx: ReturnType<typeof createContext>) {
  const subscription = subscribe<{ id: string }>(ctx, ['a.b'], { onEvent: ({ payload, id, topic }) => [payload.id, id, topic] })
  holds<Equal<typeof subscription.lastEventId, string | undefined>>()
}
