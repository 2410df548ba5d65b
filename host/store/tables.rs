//! Plugins' tables against what their `schema.sql` wants, and the host's own tables beside them.

use std::collections::BTreeSet;

use super::{Database, Shared, postgres, sqlite};
use crate::clock::Millis;
use crate::schema::inspect::Live;
use crate::schema::{
    self, Applied, ApplyError, Database as _, Plan, Refusal, Schema, SchemaError, State, Status, Step, Tell,
};

/// One of the host's own tables or indexes that somebody dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Own {
    pub name: String,
    pub is_table: bool,
    /// What makes it.
    pub sql: String,
}

/// Looks at a database without changing or making anything. `work` gets it, and what of the host's own is missing.
fn look<R>(
    database: &Database,
    work: impl Fn(&dyn schema::Database, Vec<Own>) -> Result<R, SchemaError>,
) -> Result<R, SchemaError> {
    match database {
        Database::Sqlite(path) => {
            sqlite::own::look(path, |connection| work(connection, sqlite::own::missing(connection)?))
        }
        Database::Postgres(server, plugin) => postgres::tables::look(server, plugin, work),
    }
}

/// The steps from what is there to `wanted`; see [`schema::plan()`]. A database that is not there is taken as empty.
///
/// # Errors
/// When the database cannot be read.
pub fn plan(database: &Database, wanted: &Schema, allow_destructive: &[String]) -> Result<Plan, SchemaError> {
    look(database, |db, missing| {
        let mut plan = schema::plan(db, wanted, allow_destructive)?;
        own_first(&mut plan, missing, allow_destructive);
        Ok(plan)
    })
}

/// Compares the tables with `wanted`, likewise.
///
/// # Errors
/// When the database cannot be read.
pub fn status(database: &Database, wanted: &Schema) -> Result<Status, SchemaError> {
    look(database, |db, missing| {
        let mut status = schema::status(db, wanted)?;
        if !missing.is_empty() {
            own_first(&mut status.plan, missing, &[]);
            status.state = State::Drift;
        }
        Ok(status)
    })
}

/// The names that `--allow-destructive` may list; see [`schema::names()`].
///
/// # Errors
/// When the database cannot be read.
pub fn names(database: &Database, wanted: &Schema) -> Result<BTreeSet<String>, SchemaError> {
    look(database, |db, missing| {
        let mut names = schema::names(db, wanted)?;
        names.extend(missing.into_iter().map(|own| own.name));
        Ok(names)
    })
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
    let missing = match shared {
        Shared::Sqlite(shared) => sqlite::own::missing(&shared.lock())?,
        Shared::Postgres(shared) => postgres::tables::missing(shared)?,
    };
    let mut own = Plan::default();
    own_first(&mut own, missing.clone(), allow_destructive);
    if !own.refusals.is_empty() {
        return Err(ApplyError::Refused(own));
    }
    match shared {
        Shared::Sqlite(shared) if !missing.is_empty() => sqlite::own::mend(&mut shared.lock(), &missing)?,
        Shared::Postgres(shared) if !missing.is_empty() => postgres::tables::mend(shared, &missing)?,
        Shared::Sqlite(_) | Shared::Postgres(_) => {}
    }
    let mut applied = match shared {
        Shared::Sqlite(shared) => schema::apply_telling(&mut shared.lock(), wanted, allow_destructive, now, tell),
        Shared::Postgres(shared) => postgres::tables::apply_telling(shared, wanted, allow_destructive, now, tell),
    }?;
    applied.plan.steps.splice(0..0, own.steps);
    Ok(applied)
}

/// Puts what makes the host's own tables again in front of a plan's steps. What they held is gone, which has to be
/// allowed by name.
fn own_first(plan: &mut Plan, missing: Vec<Own>, allowed: &[String]) {
    let mut steps = Vec::new();
    for Own { name, is_table, sql } in missing {
        let (kind, lost) = if is_table { ("table", lost(&name)) } else { ("index", "") };
        plan.drift.push(format!("the host's own {kind} {name} is gone"));
        let why = format!("the host's own {kind} {name} was dropped by hand, and is made again{lost}");
        if is_table && !allowed.contains(&name) {
            let message = format!(
                "{why}. Better restore the newest backup (oncehost restore); to go on without what it held, add \
                 --allow-destructive {name}"
            );
            plan.refusals.push(Refusal { message, allow: Some(name.clone()), offending: None });
        }
        steps.push(Step { why, sql: vec![sql], destructive: is_table.then_some(name).into_iter().collect() });
    }
    plan.steps.splice(0..0, steps);
}

/// What goes with one of the host's own tables.
fn lost(table: &str) -> &'static str {
    match table {
        "_oncehost_keys" => ", empty: what was done under a key is forgotten, and a retry of it runs again",
        "_oncehost_events" => ", empty: published events that had not left are lost",
        "_oncehost_deliveries" => ", empty: events that waited for this plugin, and its dead letters, are lost",
        "_oncehost_schedules" => ", empty: schedules begin anew",
        "_oncehost_workflows" | "_oncehost_steps" | "_oncehost_definitions" => {
            ", empty: workflows are lost, those under way too"
        }
        "_oncehost_schema" => ", empty: changes by other hands show no more from before this",
        _ => ", empty",
    }
}

/// The tables that are there, in the terms of the model.
///
/// # Errors
/// When the database cannot be read.
pub fn live(shared: &Shared) -> Result<Live, SchemaError> {
    match shared {
        Shared::Sqlite(shared) => shared.lock().inspect(),
        Shared::Postgres(shared) => postgres::tables::live(shared),
    }
}

/// Makes the tables of `wanted` where there is none; see [`schema::make`].
///
/// # Errors
/// When the database fails.
pub fn make(shared: &Shared, wanted: &Schema) -> Result<(), SchemaError> {
    change(shared, |db| schema::make(db, wanted))
}

/// Ties tables that [`make`] made; see [`schema::tie`].
///
/// # Errors
/// As there.
pub fn tie(shared: &Shared, wanted: &Schema) -> Result<(), SchemaError> {
    change(shared, |db| schema::tie(db, wanted))
}

fn change(
    shared: &Shared,
    work: impl FnOnce(&dyn schema::Database) -> Result<(), SchemaError>,
) -> Result<(), SchemaError> {
    match shared {
        Shared::Sqlite(shared) => {
            let mut connection = shared.lock();
            let transaction = connection.transaction()?;
            work(&*transaction)?;
            Ok(transaction.commit()?)
        }
        Shared::Postgres(shared) => postgres::tables::change(shared, work),
    }
}
