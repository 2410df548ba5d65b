//! Many hosts on one Postgres, and a Postgres that fails.

mod changing;
mod events;
mod faults;
mod flows;
mod groups;
mod hosts;
mod linear;
mod mixed;
mod order;
mod outages;
mod proxy;
mod schedules;
pub mod three;
mod tls;
mod unreachable;
mod versions;

use oncehost::config::{Settings, Store};

use crate::support::host::Host;
use crate::support::scenario::files;
use crate::support::shop::SHOP;

/// The shop, with actions that only serializable transactions keep from doing harm, and one that takes its time.
const MORE: &str = r"
//- /shop/handlers/claim.ts
// Looks and then writes: two at the same time must not both find nothing.
export function handle(input: { name: string }, ctx: any) {
  const seen = store.count('loose', { name: { eq: input.name } })
  if (!seen.ok) throw seen.error
  if (seen.data.count > 0) return { claimed: false }
  const made = store.createIfAbsent('loose', { id: ctx.invocationId, name: input.name }, ['id'])
  if (!made.ok) throw made.error
  return { claimed: made.data.created }
}
//- /shop/handlers/tell.ts
// Its event has a key that it chose.
export function handle(input: { code: string }) {
  const made = store.createIfAbsent('item', { code: input.code }, ['code'])
  if (!made.ok) throw made.error
  const sent = notify.publish('item.added', { code: input.code }, { eventKey: `added:${input.code}` })
  if (!sent.ok) throw sent.error
  return { created: made.data.created, already: sent.data.already }
}
//- /shop/handlers/put.ts
// A row each time it runs.
export function handle(input: { name: string }, ctx: any) {
  const made = store.createIfAbsent('loose', { id: crypto.randomUUID() + ctx.invocationId, name: input.name }, ['id'])
  if (!made.ok) throw made.error
}
//- /shop/handlers/fill.ts
export function handle(input: { code: string, bytes: number }) {
  const made = store.createIfAbsent('item', { code: input.code, state: Array.from({ length: input.bytes }, () => Math.random().toString(36)[3]).join('') }, ['code'])
  if (!made.ok) throw made.error
  return made.data.created
}
//- /shop/handlers/raise.ts
export function handle(input: { code: string }) {
  const done = store.update('item', { code: { eq: input.code } }, { n: { inc: 1 } })
  if (!done.ok) throw done.error
  return done.data
}
//- /shop/handlers/forgive.ts
// A call that fails leaves the transaction usable.
export function handle(input: { code: string }) {
  const first = store.createIfAbsent('item', { id: 'one', code: input.code }, ['code'])
  if (!first.ok) throw first.error
  const second = store.createIfAbsent('item', { id: 'one', code: input.code + '!' }, ['code'])
  const third = store.createIfAbsent('item', { code: input.code + '?' }, ['code'])
  if (!third.ok) throw third.error
  return { second: second.ok ? null : second.error.code, third: third.data.created }
}
";

/// A host with the shop on this database.
fn host(url: &str, change: impl FnOnce(&mut Settings)) -> Host {
    Host::with(files(&format!("{SHOP}{MORE}")), |settings| {
        settings.store = Store::Postgres(url.to_owned());
        change(settings);
    })
}
