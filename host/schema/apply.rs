//! Bringing a database to a schema, in one transaction.

use rusqlite::{Connection, TransactionBehavior};
use serde::Serialize;

use super::database::{Database, as_wanted};
use super::inspect::rows;
use super::plan::{Plan, plan};
use super::{Schema, SchemaError, record};
use crate::clock::Millis;
use crate::codec::time;

/// What `apply` did.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Applied {
    /// Counts the schemas applied to this database, from 1.
    pub version: i64,
    /// The steps that ran; none if the database was as wanted.
    pub plan: Plan,
}

/// Why nothing was applied.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The plan has refusals; `render` shows them.
    #[error("the schema was not applied: {}", .0.refusals.first().map_or("", |first| first.message.as_str()))]
    Refused(Plan),
    #[error(transparent)]
    Store(#[from] SchemaError),
}

/// Whether a database is as `schema.sql` wants it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    Equal,
    /// There are steps to apply.
    Pending,
    /// The database was changed by other hands since the last apply.
    Drift,
}

/// What `schema status` shows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Status {
    pub state: State,
    /// Of the last apply; `None` before the first.
    pub version: Option<i64>,
    /// Milliseconds since 1970; ISO 8601 in JSON.
    #[serde(rename = "appliedAt", serialize_with = "shown")]
    pub applied_at: Option<Millis>,
    pub plan: Plan,
}

#[expect(clippy::ref_option, reason = "serde hands it so")]
fn shown<S: serde::Serializer>(at: &Option<Millis>, serializer: S) -> Result<S::Ok, S::Error> {
    at.map(time::shown).serialize(serializer)
}

/// Compares a database with `wanted`. Only reads.
///
/// # Errors
/// When the database cannot be read.
pub fn status(db: &dyn Database, wanted: &Schema) -> Result<Status, SchemaError> {
    let plan = plan(db, wanted, &[])?;
    let record = record::read(db)?;
    let state = if !plan.drift.is_empty() {
        State::Drift
    } else if plan.steps.is_empty() && plan.refusals.is_empty() {
        State::Equal
    } else {
        State::Pending
    };
    let (version, applied_at) = record.map(|record| (record.version, record.applied_at)).unzip();
    Ok(Status { state, version, applied_at, plan })
}

/// Hears of each step before it is done: its number from 1, how many there are, and why it is.
pub type Tell<'a> = &'a dyn Fn(usize, usize, &str);

/// Brings the database to `wanted`: all of it or nothing, in one transaction, in which the plan is made again.
/// `conn` must not be in a transaction. Foreign keys are not enforced while it runs and are checked at its end.
///
/// # Errors
/// [`ApplyError::Refused`] with the plan when something stands against it, otherwise what the database says.
pub fn apply(
    conn: &mut Connection,
    wanted: &Schema,
    allow_destructive: &[String],
    now: Millis,
) -> Result<Applied, ApplyError> {
    apply_telling(conn, wanted, allow_destructive, now, &|_, _, _| ())
}

/// The same, with somebody who hears of the steps.
///
/// # Errors
/// See [`apply`].
pub fn apply_telling(
    conn: &mut Connection,
    wanted: &Schema,
    allow_destructive: &[String],
    now: Millis,
    tell: Tell<'_>,
) -> Result<Applied, ApplyError> {
    let enforced = rows(conn, "PRAGMA foreign_keys", [], |row| row.get::<_, bool>(0))?.contains(&true);
    // Within a transaction this setting cannot be changed, and DROP TABLE would delete the children's rows.
    set_foreign_keys(conn, false)?;
    let result = transact(conn, wanted, allow_destructive, now, tell);
    set_foreign_keys(conn, enforced)?;
    result
}

fn set_foreign_keys(conn: &Connection, on: bool) -> Result<(), SchemaError> {
    Ok(conn.pragma_update(None, "foreign_keys", on)?)
}

fn transact(
    conn: &mut Connection,
    wanted: &Schema,
    allow_destructive: &[String],
    now: Millis,
    tell: Tell<'_>,
) -> Result<Applied, ApplyError> {
    let transaction = conn.transaction_with_behavior(TransactionBehavior::Immediate).map_err(SchemaError::from)?;
    let applied = bring(&*transaction, wanted, allow_destructive, now, tell)?;
    foreign_keys_hold(&transaction)?;
    crate::crash_point!("schema-before-commit");
    transaction.commit().map_err(SchemaError::from)?;
    crate::crash_point!("schema-after-commit");
    Ok(applied)
}

/// Does the steps in the transaction that is open, and records them. The caller commits, or rolls back on an error.
///
/// # Errors
/// See [`apply`].
pub fn bring(
    db: &dyn Database,
    wanted: &Schema,
    allow_destructive: &[String],
    now: Millis,
    tell: Tell<'_>,
) -> Result<Applied, ApplyError> {
    let plan = plan(db, wanted, allow_destructive)?;
    if !plan.refusals.is_empty() {
        return Err(ApplyError::Refused(plan));
    }
    let recorded = record::read(db)?;
    if let Some(record) = recorded.filter(|record| plan.steps.is_empty() && record.hash == wanted.hash()) {
        return Ok(Applied { version: record.version, plan });
    }
    for (at, step) in plan.steps.iter().enumerate() {
        tell(at + 1, plan.steps.len(), &step.why);
        tracing::info!(target: "schema", "{}", step.why);
        for sql in &step.sql {
            db.run(sql).map_err(|error| match error {
                SchemaError::Rows(why) => {
                    SchemaError::Rows(format!("{}: {why}; nothing was changed. The statement was {sql}", step.why))
                }
                other @ (SchemaError::Database(_) | SchemaError::Store(_) | SchemaError::Outcome(_)) => other,
            })?;
            crate::crash_point!("schema-statement");
        }
    }
    as_wanted(db, wanted)?;
    let version = record::write(db, wanted, now)?;
    Ok(Applied { version, plan })
}

/// Looks whether every foreign key holds, which nobody enforced meanwhile.
fn foreign_keys_hold(conn: &Connection) -> Result<(), SchemaError> {
    let broken = rows(conn, "SELECT \"table\", parent FROM pragma_foreign_key_check LIMIT 1", [], |row| {
        Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?))
    })?;
    let Some((table, parent)) = broken.first() else { return Ok(()) };
    Err(SchemaError::Rows(format!(
        "rows of table {table} would refer to rows of {parent} that are not there; nothing was changed. \
         Change or delete those rows first"
    )))
}
