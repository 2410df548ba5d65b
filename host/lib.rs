//! oncehost runs plugins written in TypeScript and makes every write they do safe to repeat.
//!
//! The modules stand in reading order, from what everything uses to what uses everything:
//! leaves, then `store`, `script` and `plugin`, then `bindings`, then `app`, `invoke` (the heart),
//! `idempotency`, and last the ways in: `http`, `serve`, `cli`.

#[macro_use]
mod crash;
pub mod aside;
pub mod backoff;
pub mod clock;
pub mod codec;
pub mod config;
pub mod cron;
pub mod failure;
pub mod ids;
pub mod metrics;
pub mod nudge;
pub mod suggest;
pub mod trace;

pub mod query;
pub mod schema;
pub mod store;
pub mod workflow;

pub mod plugin;
pub mod script;
pub mod types;

pub mod auth;
pub mod backup;
pub mod bindings;
pub mod transfer;

pub mod app;
pub mod events;
pub mod flow;
pub mod idempotency;
pub mod invoke;
pub mod lane;
pub mod reload;
pub mod tables;

pub mod cli;
pub mod http;
pub mod serve;

#[cfg(test)]
#[path = "../tests/support/postgres.rs"]
mod test_postgres;
