//! Up to which instant the ticks of a plugin's schedules were made.

use rusqlite::{OptionalExtension, params};

use super::{StoreError, Tx, fault};
use crate::clock::Millis;

/// Up to when a schedule's ticks were made for a tenant; `None` when it is new, or was another rule then.
///
/// # Errors
/// When the database fails.
pub fn made_until(tx: &Tx, name: &str, tenant: &str, rule: &str) -> Result<Option<Millis>, StoreError> {
    tx.with(|connection| {
        connection
            .prepare_cached("SELECT until_at FROM _oncehost_schedules WHERE name = ?1 AND tenant = ?2 AND rule = ?3")
            .and_then(|mut statement| statement.query_row([name, tenant, rule], |row| row.get(0)).optional())
            .map_err(|error| fault(&error))
    })
}

/// Notes up to when a schedule's ticks were made for a tenant.
///
/// # Errors
/// When the database fails.
pub fn set_made_until(tx: &Tx, name: &str, tenant: &str, rule: &str, until: Millis) -> Result<(), StoreError> {
    tx.with(|connection| {
        connection
            .prepare_cached(
                "INSERT INTO _oncehost_schedules (name, tenant, rule, until_at) VALUES (?1, ?2, ?3, ?4) \
                 ON CONFLICT (name, tenant) DO UPDATE SET rule = excluded.rule, until_at = excluded.until_at",
            )
            .and_then(|mut statement| statement.execute(params![name, tenant, rule, until]))
            .map(drop)
            .map_err(|error| fault(&error))
    })
}
