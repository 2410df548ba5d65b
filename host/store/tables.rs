//! Plugins' tables against what their `schema.sql` wants.

use super::{Shared, postgres};
use crate::clock::Millis;
use crate::schema::{self, Applied, ApplyError, Plan, Schema, SchemaError, Status, Tell};

/// The steps from what is there to `wanted`; see [`schema::plan()`].
///
/// # Errors
/// When the database cannot be read.
pub fn plan(shared: &Shared, wanted: &Schema, allow_destructive: &[String]) -> Result<Plan, SchemaError> {
    match shared {
        Shared::Sqlite(shared) => schema::plan(&*shared.lock(), wanted, allow_destructive),
        Shared::Postgres(shared) => postgres::tables::plan(shared, wanted, allow_destructive),
    }
}

/// Brings the tables to `wanted`, all of it or nothing; see [`schema::apply()`].
///
/// # Errors
/// [`ApplyError::Refused`] with the plan when something stands against it, otherwise what the database says.
pub fn apply(
    shared: &Shared,
    wanted: &Schema,
    allow_destructive: &[String],
    now: Millis,
) -> Result<Applied, ApplyError> {
    apply_telling(shared, wanted, allow_destructive, now, &|_, _, _| ())
}

/// The same, with somebody who hears of the steps.
///
/// # Errors
/// See [`apply`].
pub fn apply_telling(
    shared: &Shared,
    wanted: &Schema,
    allow_destructive: &[String],
    now: Millis,
    tell: Tell<'_>,
) -> Result<Applied, ApplyError> {
    match shared {
        Shared::Sqlite(shared) => schema::apply_telling(&mut shared.lock(), wanted, allow_destructive, now, tell),
        Shared::Postgres(shared) => postgres::tables::apply_telling(shared, wanted, allow_destructive, now, tell),
    }
}

/// Compares the tables with `wanted`. Only reads.
///
/// # Errors
/// When the database cannot be read.
pub fn status(shared: &Shared, wanted: &Schema) -> Result<Status, SchemaError> {
    match shared {
        Shared::Sqlite(shared) => schema::status(&*shared.lock(), wanted),
        Shared::Postgres(shared) => postgres::tables::status(shared, wanted),
    }
}
