//! Plugins on databases of their own, and the way from one database to another.

use oncehost::config::{Placed, Settings, Store};

mod away;
mod copy;
#[cfg(feature = "crash-points")]
mod killed;
mod owned;
mod placement;
pub mod refused;

/// Puts a plugin on a database.
fn place(settings: &mut Settings, plugin: &str, url: &str) {
    let placed = Placed { store: Store::Postgres(url.to_owned()), from: "oncehost.toml:1".to_owned() };
    settings.stores.insert(plugin.to_owned(), placed);
}

/// A plugin with values at the edges of what columns hold, a workflow that sleeps, and an event that nobody can handle
/// at first.
const EDGE: &str = r#"
//- /edge/plugin.json
{ "id": "edge", "version": "1.0.0", "permissions": ["data:read", "data:write", "flow:start", "notify:publish", "events:shaky"],
  "sharedTables": ["word"],
  "schedules": [ { "name": "daily", "cron": "0 3 * * *", "timezone": "UTC", "tenants": ["dev"], "handler": "events/daily" } ],
  "subscriptions": [ { "type": "shaky", "handler": "events/shaky", "retry": { "maxAttempts": 1 } } ] }
//- /edge/schema.sql
CREATE TABLE thing (
  id TEXT PRIMARY KEY, big INTEGER, rate REAL, paid BOOLEAN, name TEXT UNIQUE, raw BLOB, extra JSON, due TIMESTAMP,
  parent TEXT REFERENCES thing (id), created_at TIMESTAMP, updated_at TIMESTAMP);
CREATE TABLE line (thing TEXT NOT NULL REFERENCES thing (id), n INTEGER, rate REAL NOT NULL DEFAULT 1, CHECK (n > 0), PRIMARY KEY (thing, n));
CREATE TABLE moment (due TIMESTAMP, raw BLOB, PRIMARY KEY (due, raw));
CREATE TABLE word (word TEXT PRIMARY KEY);
//- /edge/lib/put.ts
export function put(table: string, record: any, by: string[]) {
  const made = store.createIfAbsent(table, record, by)
  if (!made.ok) throw made.error
  return made.data
}
//- /edge/handlers/fill.ts
import { put } from '../lib/put'
export function handle(input: { lines: number }) {
  const first = put('thing', { id: 'max', big: 9223372036854775807n, rate: 1.7976931348623157e308, paid: true, name: '🙂é\u0001',
    raw: new Uint8Array([0, 255, 1]), extra: { a: [null, 1.5, '🙂'], b: { c: true } }, due: '9999-12-31T23:59:59.999Z' }, ['id'])
  put('thing', { id: 'min', big: -9223372036854775808n, rate: 5e-324, paid: false, name: '', raw: new Uint8Array(0), extra: [],
    due: '0001-01-01T00:00:00.000Z', parent: 'max' }, ['id'])
  put('thing', { id: 'none' }, ['id'])
  put('thing', { id: 'whole', rate: 3, parent: 'whole' }, ['id'])
  put('word', { word: 'Ünïcode' }, ['word'])
  for (const due of ['0001-01-01T00:00:00.000Z', '1969-12-31T23:59:59.999Z', '9999-12-31T23:59:59.999Z'])
    for (const raw of [[], [0], [255, 0]]) put('moment', { due, raw: new Uint8Array(raw) }, ['due', 'raw'])
  for (let n = 1; n <= input.lines; n++) put('line', { thing: 'max', n }, ['thing', 'n'])
  const sent = notify.publish('edge.filled', { lines: input.lines })
  if (!sent.ok) throw sent.error
  return { first }
}
//- /edge/handlers/fix.ts
import { put } from '../lib/put'
export function handle() { return put('word', { word: 'fixed' }, ['word']) }
//- /edge/handlers/sleep.ts
export function handle(input: { id: string }) {
  const started = flow.start('nap', input.id)
  if (!started.ok) throw started.error
  return started.data
}
//- /edge/handlers/wake.ts
import { put } from '../lib/put'
export function handle(_input: unknown, ctx: any) { return put('word', { word: ctx.idempotencyKey }, ['word']).created }
//- /edge/flows/nap.json
{ "name": "nap", "steps": [ { "id": "nap", "uses": "sleep", "for": "1h" },
  { "id": "wake", "uses": "action", "inputs": { "action": { "const": "wake" } } } ] }
//- /edge/events/shaky.ts
import { put } from '../lib/put'
export function handle(event: any) {
  const found = store.get('word', { word: { eq: 'fixed' } })
  if (!found.ok) throw found.error
  if (found.data === null) throw new Error('not yet')
  put('word', { word: event.id }, ['word'])
}
//- /edge/events/daily.ts
import { put } from '../lib/put'
export function handle(event: any) { put('word', { word: 'tick ' + event.time }, ['word']) }
"#;
