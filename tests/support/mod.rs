//! What the tests share.

pub mod host;
pub mod postgres;
pub mod process;
pub mod rows;
pub mod scenario;
pub mod server;
pub mod shop;

/// The short form of a count in the ordinary run, the long one with `--long`.
pub fn long<T>(short: T, long: T) -> T {
    if std::env::var_os("ONCEHOST_LONG").is_some() { long } else { short }
}

/// The databases that a test is to hold on: files, and a new one on Postgres.
pub fn stores() -> [oncehost::config::Store; 2] {
    use oncehost::config::Store;
    [Store::Sqlite, Store::Postgres(postgres::database())]
}

/// Whether a host on this database ever comes to a crash point.
pub fn is_met(point: &str, store: &oncehost::config::Store) -> bool {
    point != "before-commit-is-sent" || matches!(store, oncehost::config::Store::Postgres(_))
}
