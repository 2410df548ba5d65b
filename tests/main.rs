//! The rules of the contract, tried on the real thing: the server over HTTP, SQLite files, the built binary.

mod support;

mod cli;
mod concurrency;
#[cfg(feature = "crash-points")]
mod crash;
mod faults;
mod gate;
mod isolation;
mod operations;
mod tidy;
