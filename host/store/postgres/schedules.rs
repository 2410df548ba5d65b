//! Up to which instant the ticks of a plugin's schedules were made.

use super::{StoreError, Tx, get, number, text};
use crate::clock::Millis;

/// Up to when a schedule's ticks were made for a tenant; `None` when it is new, or was another rule then.
pub fn made_until(tx: &Tx, name: &str, tenant: &str, rule: &str) -> Result<Option<Millis>, StoreError> {
    let table = tx.shared.table("_oncehost_schedules");
    let sql = format!("SELECT until_at FROM {table} WHERE name = $1 AND tenant = $2 AND rule = $3");
    tx.query(&sql, &[text(name), text(tenant), text(rule)])?.first().map(|row| get(row, 0)).transpose()
}

/// Notes up to when a schedule's ticks were made for a tenant.
pub fn set_made_until(tx: &Tx, name: &str, tenant: &str, rule: &str, until: Millis) -> Result<(), StoreError> {
    let table = tx.shared.table("_oncehost_schedules");
    let sql = format!(
        "INSERT INTO {table} (name, tenant, rule, until_at) VALUES ($1, $2, $3, $4) \
         ON CONFLICT (name, tenant) DO UPDATE SET rule = excluded.rule, until_at = excluded.until_at"
    );
    tx.changed(&sql, &[text(name), text(tenant), text(rule), number(until)]).map(drop)
}
