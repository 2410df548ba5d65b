/**
 * Calls actions of oncehost so that each intent has its effect once, whatever the network does.
 *
 * ```ts
 * const ctx = createContext({ baseUrl: 'https://host.example', token: () => session.token })
 * const { order_id } = await invoke(ctx, 'orders', 'orders.create-order', input, { idempotencyKey: `order:${cart.id}` })
 * ```
 *
 * @packageDocumentation
 */

import { call, type Reply } from './call.ts'
import type { Context } from './context.ts'

export { createContext, type Context, type ContextOptions } from './context.ts'
export { OncehostError, type ErrorCode, type FieldFault } from './errors.ts'
export { keyStore, type Intent, type KeyStorage, type KeyStore, type KeyStoreOptions } from './store.ts'
export { subscribe, type Notification, type Resync, type SubscribeOptions, type Subscription } from './subscribe.ts'
export type { Reply } from './call.ts'

/**
 * The plugins of your host and their actions. Empty until a file that `oncehost types --client FILE` writes fills it,
 * and then names, inputs and outputs are checked. Each entry says `input`, `output`, `kind` and `key`.
 */
export interface Plugins {}

/** The topics that your host's plugins publish, as far as they are written out; for your editor to complete. */
export interface Topics {}

/** A topic: any string, the known ones first. */
export type TopicName = (keyof Topics & string) | (string & {})

/** The name of a plugin: any string until {@link Plugins} has some. */
export type PluginName = [keyof Plugins] extends [never] ? string : keyof Plugins & string

/** The name of an action of a plugin. */
export type ActionName<P extends string> = P extends keyof Plugins ? keyof Plugins[P] & string : string

type Member<P, A, M extends string> = P extends keyof Plugins
  ? A extends keyof Plugins[P] ? Plugins[P][A] extends { [K in M]: infer V } ? V : never : never
  : unknown

/** What an action takes. */
export type Input<P extends string, A extends string> = Member<P, A, 'input'>

/** What an action gives; `any` where nothing is known of the plugin. */
export type Output<P extends string, A extends string> = P extends keyof Plugins ? Member<P, A, 'output'> : any

/** How a call may be made. */
export interface InvokeOptions {
  /**
   * The name of this one intent, made from the facts of the business before the first try. All tries carry it, and
   * later calls with the same key get the reply of the first.
   */
  idempotencyKey?: string | undefined
  /** The action only reads, so it may be tried again without a key. */
  read?: boolean | undefined
  /** Milliseconds for the call with all its tries, instead of the context's. */
  deadline?: number | undefined
  /** Ends the call. The work may be done all the same: only the same key finds out. */
  signal?: AbortSignal | undefined
}

/** The options that fit an action: a read says `read: true`, and a key that the action requires is there. */
export type OptionsOf<P extends string, A extends string> = P extends keyof Plugins
  ? Omit<InvokeOptions, 'read' | 'idempotencyKey'>
    & (Member<P, A, 'kind'> extends 'read' ? { read: true } : { read?: false })
    & (Member<P, A, 'key'> extends 'required' ? { idempotencyKey: string } : { idempotencyKey?: string | undefined })
  : InvokeOptions

/** The options may be left out where nothing in them is needed. */
export type OptionsArgument<P extends string, A extends string> =
  {} extends OptionsOf<P, A> ? [options?: OptionsOf<P, A>] : [options: OptionsOf<P, A>]

/**
 * Calls an action and gives its data.
 *
 * With a key, or `read: true`, it is tried again when no answer came, and when the host or something before it says
 * that this may help; always with the same key and the same bytes. Otherwise it is tried once.
 *
 * Throws {@link OncehostError}; and the reason of `signal` where that ended it.
 */
export async function invoke<P extends PluginName, A extends ActionName<P>>(
  ctx: Context,
  plugin: P,
  action: A,
  input: Input<P, A>,
  ...options: OptionsArgument<P, A>
): Promise<Output<P, A>> {
  return (await invokeRaw(ctx, plugin, action, input, ...options)).data
}

/** The same as {@link invoke}, with what the reply's headers say. */
export function invokeRaw<P extends PluginName, A extends ActionName<P>>(
  ctx: Context,
  plugin: P,
  action: A,
  input: Input<P, A>,
  ...options: OptionsArgument<P, A>
): Promise<Reply<Output<P, A>>> {
  return call(ctx, { ...options[0], plugin, action, input })
}
