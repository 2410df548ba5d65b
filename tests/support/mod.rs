//! What the tests share.

pub mod host;
pub mod process;
pub mod scenario;
pub mod server;
pub mod shop;

/// The short form of a count in the ordinary run, the long one with `--long`.
pub fn long<T>(short: T, long: T) -> T {
    if std::env::var_os("ONCEHOST_LONG").is_some() { long } else { short }
}
