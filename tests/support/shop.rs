//! A small plugin that most tests use: things that are added once, and states that advance once.

use oncehost::config::Store;

use super::host::Host;
use super::postgres;
use super::process::Folders;
use super::scenario::files;

/// The files of the plugin `shop`.
pub const SHOP: &str = r#"
//- /shop/plugin.json
{ "id": "shop", "version": "1.0.0", "permissions": ["data:read", "data:write", "flow:start", "notify:publish"] }
//- /shop/schema.sql
CREATE TABLE item (
  id TEXT PRIMARY KEY,
  code TEXT NOT NULL,
  state TEXT NOT NULL DEFAULT 'new',
  n INTEGER NOT NULL DEFAULT 0,
  created_at TIMESTAMP NOT NULL,
  updated_at TIMESTAMP NOT NULL
);
CREATE UNIQUE INDEX item_code ON item (code);
CREATE TABLE loose (id TEXT PRIMARY KEY, name TEXT);
//- /shop/flows/ship.json
{ "name": "ship", "job": { "seed": ["code"] }, "steps": [
  { "id": "send", "uses": "script", "inputs": { "script": { "const": "send" }, "code": { "from": "trigger.code" } } } ] }
//- /shop/scripts/send.ts
export function handle() { return null }
//- /shop/handlers/add.ts
export function handle(input: { code: string }) {
  const made = store.createIfAbsent('item', { code: input.code }, ['code'])
  if (!made.ok) throw made.error
  if (made.data.created) {
    const sent = notify.publish('item.added', { code: input.code })
    if (!sent.ok) throw sent.error
  }
  return { id: made.data.record.id, created: made.data.created }
}
//- /shop/handlers/quiet.ts
export function handle(input: { code: string }) {
  const made = store.createIfAbsent('item', { code: input.code }, ['code'])
  if (!made.ok) throw made.error
  return { id: made.data.record.id, created: made.data.created }
}
//- /shop/handlers/add-again.ts
export const config = { replay: 'rerun', transient: ['at'] }
export { handle } from './add.ts'
//- /shop/handlers/must-have-key.ts
export const config = { key: 'required', input: { type: 'object', required: ['code'], properties: { code: { type: 'string' } } } }
export { handle } from './add.ts'
//- /shop/handlers/advance.ts
export function handle(input: { code: string, from: string, to: string }) {
  const done = store.update('item', { code: { eq: input.code }, state: { eq: input.from } }, { state: input.to })
  if (!done.ok) throw done.error
  return done.data
}
//- /shop/handlers/get.ts
export const config = { kind: 'read' }
export function handle(input: { code: string }, ctx: any) {
  const found = store.get('item', { code: { eq: input.code } })
  if (!found.ok) throw found.error
  return { found: found.data?.code ?? null, key: ctx.idempotencyKey ?? null }
}
//- /shop/handlers/fail-late.ts
export function handle(input: { code: string, fail: boolean }) {
  const made = store.createIfAbsent('item', { code: input.code }, ['code'])
  if (!made.ok) throw made.error
  const started = flow.start('ship', input.code, { code: input.code })
  if (!started.ok) throw started.error
  notify.publish('item.added', { code: input.code })
  notify.publish('item.counted', { code: input.code })
  if (input.fail) throw new Error('after the writes')
  return made.data.created
}
//- /shop/handlers/refuse.ts
export function handle(input: { code: string }) {
  store.createIfAbsent('item', { code: input.code }, ['code'])
  throw new BizError('CLOSED', 'the shop is closed', { status: 409, details: { opens: 'monday' } })
}
//- /shop/handlers/stable.ts
export function handle(_input: unknown, ctx: any) {
  return { a: ctx.stableId('a'), b: ctx.stableId('b'), again: ctx.stableId('a'), random: Math.random(), now: ctx.now === new Date().toISOString() }
}
//- /shop/handlers/loose.ts
export function handle(input: { name: string }) {
  const made = store.createIfAbsent('loose', { name: input.name }, ['name'])
  if (!made.ok) throw made.error
  return made.data
}
//- /shop/handlers/spin.ts
export function handle(input: { code: string }) {
  store.createIfAbsent('item', { code: input.code }, ['code'])
  while (true) {}
}
//- /shop/handlers/nothing.ts
export function handle() {}
"#;

/// A host in this process with the shop.
pub fn host() -> Host {
    Host::new(files(SHOP))
}

/// The same on each database.
pub fn hosts() -> [Host; 2] {
    [Store::Sqlite, Store::Postgres(postgres::database())]
        .map(|store| Host::with(files(SHOP), |settings| settings.store = store))
}

/// Folders with the shop, for the built binary.
pub fn folders() -> Folders {
    Folders::new(files(SHOP))
}

/// The same on each database.
pub fn all_folders() -> [Folders; 2] {
    [folders(), folders().on_postgres(Some(postgres::database()))]
}
