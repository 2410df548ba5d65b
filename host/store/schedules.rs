//! Up to which instant the ticks of a plugin's schedules were made.

use crate::clock::Millis;

verbs! { schedules:
    /// Up to when a schedule's ticks were made for a tenant; `None` when it is new, or was another rule then.
    ///
    /// # Errors
    /// When the database fails.
    pub fn made_until(tx, name: &str, tenant: &str, rule: &str) -> Option<Millis>;

    /// Notes up to when a schedule's ticks were made for a tenant.
    ///
    /// # Errors
    /// When the database fails.
    pub fn set_made_until(tx, name: &str, tenant: &str, rule: &str, until: Millis) -> ();
}
