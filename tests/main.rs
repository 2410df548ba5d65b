//! The rules of the contract, tried on the real thing: the server over HTTP, SQLite files, the built binary.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so by a panic")]

mod support;

mod auth;
mod cli;
mod concurrency;
#[cfg(feature = "crash-points")]
mod crash;
mod events;
mod fairness;
mod faults;
mod flows;
mod fuzz;
mod gate;
mod hostile;
mod isolation;
mod lane;
mod new;
mod npm;
mod openapi;
mod operations;
mod postgres;
mod reload;
#[cfg(feature = "crash-points")]
mod schema;
mod stores;
mod tidy;
mod types;
