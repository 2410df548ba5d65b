/// <reference path="./oncehost-web.d.ts" />
/**
 * Types for plugins of oncehost: what a handler exports, what it is given, and the globals it calls.
 *
 * ```ts
 * import type { ActionConfig, HandlerCtx } from '@oncehost/sdk/plugin'
 * ```
 *
 * Nothing is imported at run time: `store`, `flow`, `notify`, `console`, `BizError` and `Discard` are globals.
 * @packageDocumentation
 */

// ---------------------------------------------------------------------------------------------- tables and flows

/**
 * The tables of your plugin. `oncehost dev` writes them to `oncehost.d.ts` in the plugin's folder on each reload, and
 * `oncehost types` does so once; then `store` accepts no other table and no other column.
 *
 * ```ts
 * declare module '@oncehost/sdk/plugin' {
 *   interface Tables {
 *     camera: {
 *       record: { id: string; name: string; createdAt: string; updatedAt: string }
 *       insert: { id?: string | undefined; name: string }
 *     }
 *   }
 * }
 * ```
 *
 * `record` is what reading gives; `insert` is what a new record may hold (columns with a default, or that may be
 * NULL, are optional). The host fills `createdAt` and `updatedAt`, so they are never in `insert`. An INTEGER is read
 * as a number, and beyond ±(2^53−1), where a number would lose digits, as a BigInt.
 */
export interface Tables {}

/**
 * The flows of your plugin and the keys of the seeds they take, written as {@link Tables} are. Then `flow.start`
 * accepts no other name and no other key.
 */
export interface Flows {}

/** The topics that your plugin publishes, as far as they are written out; for your editor to complete. */
export interface Topics {}

/**
 * The plugins that your scripts may run (`invoke:PLUGIN` in `permissions`) and their actions, written as
 * {@link Tables} are. Then `invoke` accepts no other plugin, action and input.
 */
export interface Plugins {}

/** A topic: any string, the plugin's own ones first. */
export type TopicName = (keyof Topics & string) | (string & {})

/** The name of a plugin that scripts may run: any string until {@link Plugins} has some. */
export type PluginName = [keyof Plugins] extends [never] ? string : keyof Plugins & string

/** The name of an action of a plugin. */
export type ActionName<P extends string> = P extends keyof Plugins ? keyof Plugins[P] & string : string

/** What an action takes. */
export type ActionInput<P extends string, A extends string> = P extends keyof Plugins
  ? A extends keyof Plugins[P] ? Plugins[P][A] extends { input: infer I } ? I : never : never
  : unknown

/** What an action gives. */
export type ActionOutput<P extends string, A extends string> = P extends keyof Plugins
  ? A extends keyof Plugins[P] ? Plugins[P][A] extends { output: infer O } ? O : never : never
  : unknown

/** The name of a table: any string until {@link Tables} declares the plugin's. */
export type TableName = [keyof Tables] extends [never] ? string : keyof Tables & string

/** The name of a flow: any string until {@link Flows} declares the plugin's. */
export type FlowName = [keyof Flows] extends [never] ? string : keyof Flows & string

/** A record as `store` gives it. Columns `created_at` and `updated_at` are `createdAt` and `updatedAt` here. */
export type Row<T extends string = string> = T extends keyof Tables
  ? Tables[T] extends { record: infer R } ? R : never
  : Record<string, unknown>

/** A record as `store.createIfAbsent` takes it. */
export type NewRow<T extends string = string> = T extends keyof Tables
  ? Tables[T] extends { insert: infer I } ? I : never
  : Record<string, unknown>

/** The columns of a table, as scripts name them. */
export type Column<T extends string = string> = keyof Row<T> & string

/** What one column may be compared with: what it may be set to, or for the host's own times a time. */
type Operand<T extends string, C extends string> = T extends keyof Tables
  ? C extends keyof NewRow<T> ? NonNullable<NewRow<T>[C]> : string | Date
  : string | number | bigint | boolean | Date | Uint8Array

/**
 * A condition on one column; several operators are ANDed. A bare value is refused: write `{ eq: value }`.
 * `null` is refused as an operand: write `{ isNull: true }`.
 */
export interface Condition<V = unknown> {
  /** Equal. */
  eq?: V
  /** Not equal; matches NULL too. */
  ne?: V
  gt?: V
  gte?: V
  lt?: V
  lte?: V
  /** One of these; `[]` matches nothing. */
  in?: readonly V[]
  /** None of these; matches NULL too. */
  notIn?: readonly V[]
  /** `true`: is NULL; `false`: is not NULL. */
  isNull?: boolean
  /** Begins with this very text: no wildcards, upper and lower case differ. Text columns only. */
  startsWith?: V extends string ? string : V extends object | number | bigint | boolean ? never : string
}

/**
 * Which records: a condition for each field, all of which must hold. `or` holds where at least one of its branches
 * does. `undefined` is refused, so add a field only when you mean it.
 *
 * ```ts
 * { status: { eq: 'open' }, total_cents: { gte: 1000 }, or: [{ paid_at: { isNull: true } }, { note: { startsWith: 'gift' } }] }
 * ```
 */
export type Where<T extends string = string> = T extends keyof Tables
  ? { [C in Column<T>]?: Condition<Operand<T, C>> } & { or?: readonly Where<T>[] }
  : { [field: string]: Condition<Operand<T, string>> | readonly Where<T>[] }

/** New values for columns. A number column may be changed by an amount: `{ inc: -1 }`. */
export type Patch<T extends string = string> = {
  [C in keyof NewRow<T>]?: NonNullable<NewRow<T>[C]> extends number | bigint ? NewRow<T>[C] | Increment : NewRow<T>[C]
}

/** Adds to what is there, in the database: nothing is lost between reading and writing. */
export interface Increment {
  inc: number | bigint
}

/** `{ field: 'asc' }`. NULLs come first in `asc` and last in `desc`; the primary key breaks ties. */
export type Order<T extends string = string> = { [C in Column<T>]?: 'asc' | 'desc' }

/** Options of `store.list`; each may be left out, and `undefined` counts as left out. */
export interface ListOptions<T extends string = string> {
  where?: Where<T> | undefined
  /** One order, or several: the first one counts first. */
  orderBy?: Order<T> | readonly Order<T>[] | undefined
  /** 1 to 1,000; 100 when left out. */
  limit?: number | undefined
  /** `nextCursor` of the page before. It is good for the same tenant, table, `where` and `orderBy` only. */
  cursor?: string | null | undefined
}

// ---------------------------------------------------------------------------------------------- results and errors

/**
 * What `store`, `flow` and `notify` give, at once (there is no promise to await). Look at `ok` first:
 *
 * ```ts
 * const made = store.createIfAbsent('camera', { name }, ['name'])
 * if (!made.ok) throw made.error
 * made.data.created
 * ```
 *
 * Reading `created`, `record`, `affected` or `already` on the result itself is an error, here and at run time:
 * they are members of `data`.
 */
export type Result<T> =
  | { readonly ok: true; readonly data: T; readonly error?: never }
  | { readonly ok: false; readonly error: HostError; readonly data?: never }

/** The names of the host's errors. */
export type ErrorCode =
  | 'VALIDATION' | 'KEY_REQUIRED' | 'KEY_INVALID' | 'UNAUTHENTICATED' | 'FORBIDDEN' | 'NOT_FOUND' | 'METHOD'
  | 'MEDIA_TYPE' | 'KEY_IN_PROGRESS' | 'DUPLICATE' | 'CONSTRAINT' | 'KEY_EXPIRED' | 'TOO_LARGE' | 'KEY_REUSED'
  | 'RATE_LIMITED' | 'CONTRACT' | 'SCRIPT' | 'LIMIT' | 'SCHEMA' | 'OVERLOADED' | 'UNAVAILABLE'

/** An error of the host. Throw it as it is: the caller then gets its code. */
export interface HostError extends Error {
  /** What kind of error it is; compare with this, never with `message`. */
  readonly code: ErrorCode
  /** Whether the very same call may succeed later without anybody changing anything. */
  readonly retryable: boolean
  /** Facts for a program, such as the DDL that would add a missing index; `null` where there are none. */
  readonly details: unknown
}

/** Options of {@link BizError}. */
export interface BizErrorOptions {
  /** The HTTP status of the reply, 400 to 499; 400 when left out. */
  status?: number
  /** Facts for the caller's program; they are in the reply. */
  details?: unknown
}

// ---------------------------------------------------------------------------------------------- handlers

/**
 * What a handler file may export as `config`:
 *
 * ```ts
 * export const config = { key: 'required', input: { type: 'object', required: ['name'] } } satisfies ActionConfig
 * ```
 */
export interface ActionConfig {
  /**
   * `'write'` (default): one transaction, replies are recorded under the key.
   * `'read'`: may not write, runs beside everything else; its key is checked for form but not recorded.
   */
  kind?: 'write' | 'read'
  /** `'optional'` (default): without a key it runs each time. `'required'`: refused without an `Idempotency-Key`. */
  key?: 'optional' | 'required'
  /**
   * `'response'` (default): the same key and input gets the recorded reply, and nothing runs.
   * `'rerun'`: the handler runs again and answers itself; it may hold only `store.createIfAbsent`, conditional
   * updates, `flow.start` and `notify.publish`.
   */
  replay?: 'response' | 'rerun'
  /** Top-level input fields that may differ between tries of one key, such as the time of sending. */
  transient?: readonly string[]
  /**
   * A JSON Schema (2020-12) that the input is checked against before the handler runs. Left out, it is derived from the
   * type of `handle`'s first parameter; JSDoc tags (`@minLength 1`, `@minimum 0`, `@pattern ^[a-z]+$`, `@format date-time`,
   * `@integer`, …) say what the type cannot. Where that cannot be done, the host says so when it loads the plugin.
   */
  input?: JsonSchema
}

/** A JSON Schema, or `true` (anything) or `false` (nothing). */
export type JsonSchema = boolean | { readonly [keyword: string]: unknown }

/** Who calls, from the credentials. */
export interface User {
  readonly subject: string
  readonly scopes: readonly string[]
  readonly claims: Readonly<Record<string, unknown>>
}

/** The second argument of `handle`: facts about this invocation. */
export interface HandlerCtx {
  /** The caller's `Idempotency-Key`, the event's id, or the step's key; `undefined` where the caller sent none. */
  readonly idempotencyKey: string | undefined
  /**
   * A UUID that depends on tenant, operation, key and `scope` alone: a retry gets the same one. Without a key it
   * throws `CONTRACT`; it is never random.
   */
  stableId(scope: string): string
  /** Who the data belongs to; comes from the credentials. */
  readonly tenantId: string
  /** The caller, or `null` where there is none (`oncehost dev`, events, schedules). */
  readonly user: User | null
  readonly pluginId: string
  /** Full name of the action, e.g. `lane-change.create-event`. */
  readonly action: string
  /** Differs on each run; for log lines, not for ids. */
  readonly invocationId: string
  /** The plugin's settings, less the secret ones. */
  readonly settings: Readonly<Record<string, unknown>>
  /** The one instant of this invocation, ISO 8601 in UTC; `Date.now()` and `new Date()` agree with it. */
  readonly now: string
}

// ---------------------------------------------------------------------------------------------- events

/** The first argument of an event handler: an event in the JSON form of CloudEvents 1.0. */
export interface CloudEvent<Data = unknown> {
  readonly specversion: '1.0'
  /** The sender's id. `ctx.idempotencyKey` is the host's, which is made of tenant, source and this. */
  readonly id: string
  /** Who sent it; `urn:oncehost:plugin:PLUGIN` for what a plugin published, `urn:oncehost:schedule:PLUGIN` for ticks. */
  readonly source: string
  readonly type: string
  readonly subject?: string
  readonly time?: string
  readonly datacontenttype?: string
  readonly dataschema?: string
  /** Its data where that is JSON or text, as it came; nobody has checked it. Other data is in `data_base64`. */
  readonly data?: Partial<Data>
  readonly data_base64?: string
  readonly [extension: string]: unknown
}

// ---------------------------------------------------------------------------------------------- flows and notices

/** One workflow: a running instance of a flow. */
export interface Workflow {
  readonly workflowId: string
  readonly flow: string
  readonly bizId: string
  readonly status: WorkflowStatus
  /** When it came to this status. */
  readonly since: string
  readonly attempts: number
  /** The last error, or `null`. */
  readonly error: unknown
  readonly steps: unknown
}

/** `failing`: a step failed and will be tried again. `failed`: its tries are used up. */
export type WorkflowStatus = 'running' | 'waiting' | 'failing' | 'completed' | 'failed' | 'cancelled'

/** What `flow.start` tells. */
export interface Started {
  /** The flow's name, `-`, and the business id. */
  readonly workflowId: string
  /** `true`: it had been started before, and this call changed nothing. */
  readonly already: boolean
  readonly status: WorkflowStatus
  /** Whether the seed is the one it was first started with. The first one stays. */
  readonly sameSeed: boolean
}

/** The seed that a flow takes, as declared in {@link Flows}. */
export type Seed<N extends string> = N extends keyof Flows ? Flows[N] : Record<string, unknown>

type SeedArgument<N extends string> = N extends keyof Flows
  ? keyof Flows[N] extends never ? [seed?: Flows[N]] : [seed: Flows[N]]
  : [seed?: Record<string, unknown>]

/** Options of `notify.publish`. */
export interface PublishOptions {
  /**
   * Unique within tenant and plugin: publishing again under the same one changes nothing, and with another payload
   * is `CONTRACT`. Left out, it is derived from the operation, the key, the topic and the count within the run.
   */
  eventKey?: string
  /** What the event is about; subscriptions with `orderBy: "subject"` get the events of one subject in order. */
  subject?: string
}

// ---------------------------------------------------------------------------------------------- scripts of flow steps

/** The second argument of a flow script's `handle`: a step always has a key. */
export interface ScriptCtx extends HandlerCtx {
  /** `workflowId:stepId`, the same on every try of the step. */
  readonly idempotencyKey: string
}

/** The step that a script runs for. */
export interface Run {
  readonly workflowId: string
  readonly stepId: string
  /** `workflowId:stepId`, the same on every try: send it as `Idempotency-Key` to whom you call. */
  readonly idempotencyKey: string
  /** The same with tenant and plugin in front, for a receiver that several of them share. */
  readonly scopedKey: string
  /** Counts from 1. */
  readonly attempt: number
  /** Says when the step is to stop; hand it to `fetch`. */
  readonly signal: StopSignal
}

/** The part of the web's `AbortSignal` that scripts have. */
export interface StopSignal {
  readonly aborted: boolean
  readonly reason: unknown
  throwIfAborted(): void
}

/** Options of `fetch`. */
export interface FetchOptions {
  method?: string
  headers?: Readonly<Record<string, string>>
  body?: string | Uint8Array
  signal?: StopSignal
  /** `'follow'`, the default: each hop must be a host that `permissions` names. */
  redirect?: 'follow' | 'manual' | 'error'
}

/** What `fetch` resolves to, for any status that the far side answered with. */
export interface FetchResponse {
  /** Whether `status` is 200 to 299. */
  readonly ok: boolean
  readonly status: number
  readonly headers: { get(name: string): string | null; has(name: string): boolean }
  /** Where the answer came from, after redirects. */
  readonly url: string
  text(): Promise<string>
  json(): Promise<unknown>
  bytes(): Promise<Uint8Array>
}

type OnlyInAFlowStep = 'invoke works only in scripts of flow steps: move it to a flow step'

declare global {
  /** The plugin's tables, within this invocation's transaction and the caller's tenant. */
  const store: {
    /**
     * Makes the record, unless one with the same values in the columns `uniqueBy` is there: then gives that one,
     * unchanged, with `created: false`. Needs a UNIQUE index (or the primary key) on just those columns.
     * A text `id` that is left out is filled with a UUIDv7.
     */
    createIfAbsent<T extends TableName>(
      table: T,
      record: NewRow<T>,
      uniqueBy: readonly (keyof NewRow<T> & string)[],
    ): Result<{ readonly record: Row<T>; readonly created: boolean }>
    /**
     * Changes the records that match, and says how many did. Name the old state in `where`: of any number of
     * racing callers one sees `affected: 1`.
     */
    update<T extends TableName>(table: T, where: Where<T>, patch: Patch<T>): Result<{ readonly affected: number }>
    /** Deletes the records that match, and says how many did. */
    delete<T extends TableName>(table: T, where: Where<T>): Result<{ readonly affected: number }>
    /** The record that matches, or `null`. More than one is `CONTRACT`. Needs `data:read`. */
    get<T extends TableName>(table: T, where: Where<T>): Result<Row<T> | null>
    /** A page of the records that match; `nextCursor` is `null` on the last one. Needs `data:read`. */
    list<T extends TableName>(
      table: T,
      options?: ListOptions<T>,
    ): Result<{ readonly records: readonly Row<T>[]; readonly nextCursor: string | null }>
    /** How many records match. Needs `data:read`. */
    count<T extends TableName>(table: T, where: Where<T>): Result<{ readonly count: number }>
  }

  /** Workflows of this plugin. They start when, and only if, this invocation commits. */
  const flow: {
    /**
     * Starts the flow once for `bizId`; starting it again changes nothing and says `already: true`. The keys of
     * `seed` are exactly those that the flow's `job.seed` lists. Needs `flow:start`.
     */
    start<N extends FlowName>(name: N, bizId: string, ...seed: SeedArgument<N>): Result<Started>
    /** How a workflow stands, or `null` where there is none. */
    get(workflowId: string): Result<Workflow | null>
    /** Ends a workflow before its next step. */
    cancel(workflowId: string, reason: string): Result<Workflow | null>
  }

  /** Events. They are delivered when, and only if, this invocation commits. */
  const notify: {
    /** Publishes an event to every subscription of `topic`. Needs `notify:publish`. */
    publish(topic: TopicName, payload: unknown, options?: PublishOptions):
      Result<{ readonly eventId: string; readonly already: boolean }>
  }

  /** Structured log lines, with plugin, action and invocation; those of a `group` are indented until `groupEnd`. */
  const console: {
    debug(...values: unknown[]): void
    log(...values: unknown[]): void
    info(...values: unknown[]): void
    warn(...values: unknown[]): void
    error(...values: unknown[]): void
    trace(...values: unknown[]): void
    assert(condition?: boolean, ...values: unknown[]): void
    dir(value: unknown): void
    table(data: unknown, columns?: readonly string[]): void
    group(...values: unknown[]): void
    groupCollapsed(...values: unknown[]): void
    groupEnd(): void
    count(label?: string): void
    countReset(label?: string): void
    /** Starts a stopwatch that only the log shows: `Date.now()` stands still within a run. */
    time(label?: string): void
    timeLog(label?: string, ...values: unknown[]): void
    timeEnd(label?: string, ...values: unknown[]): void
  }

  /**
   * An answer that the business says no: nothing is written, and the caller gets `name`, `message` and `details`.
   * `name` may not be one of the host's own error names.
   *
   * ```ts
   * throw new BizError('REGION_CLOSED', 'The region takes no events.', { status: 409, details: { region_id } })
   * ```
   */
  class BizError extends Error {
    constructor(name: string, message: string, options?: BizErrorOptions)
    readonly status: number
    readonly details: unknown
  }

  /** Thrown by an event handler or a flow step: do not try it again; the event is a dead letter, the workflow failed. */
  class Discard extends Error {
    constructor(why: string)
  }

  /**
   * An HTTP request. Only in scripts of flow steps, and only to hosts that `permissions` names (`http:HOST`). In a
   * handler it rejects with `CONTRACT`: a handler is one transaction, so move it to a flow step.
   */
  function fetch(url: string, options?: FetchOptions): Promise<FetchResponse>

  /**
   * Runs an action of another plugin, and gives its data. Only in scripts of flow steps, and only plugins that
   * `permissions` names (`invoke:PLUGIN`). In a handler it rejects with `CONTRACT`: move it to a flow step.
   */
  function invoke<C extends HandlerCtx, P extends PluginName, A extends ActionName<P>>(
    ctx: C extends ScriptCtx ? C : OnlyInAFlowStep,
    plugin: P,
    action: A,
    input: ActionInput<P, A>,
    options: { idempotencyKey: string },
  ): Promise<ActionOutput<P, A>>

  /** The value of a secret setting. Only in scripts of flow steps; in a handler it throws `CONTRACT`: move it to a flow step. */
  function secret(name: string): string

  /** The step that this script runs for. Only in scripts of flow steps; in a handler reading it throws `CONTRACT`: move it to a flow step. */
  const run: Run
}
