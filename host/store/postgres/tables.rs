//! Plugins' tables against what their `schema.sql` wants, in one transaction, one host at a time.

use deadpool_postgres::Object;

use super::cells::value;
use super::{Shared, StoreError, errors, number_of, server};
use crate::clock::Millis;
use crate::codec::Value;
use crate::query::Cell;
use crate::schema::inspect::Live;
use crate::schema::{
    self, Applied, ApplyError, Database, Dialect, Plan, Schema, SchemaError, Status, Tell, bring, catalog,
};

/// A transaction in which the plugin's schema is the current one.
struct Catalog<'a> {
    shared: &'a Shared,
    client: Object,
}

fn store(error: &StoreError) -> SchemaError {
    SchemaError::Store(error.to_string())
}

impl<'a> Catalog<'a> {
    fn begin(shared: &'a Shared, begin: &str) -> Result<Self, SchemaError> {
        let server = &shared.server;
        let client = server.wait(server.connect()).map_err(|error| store(&error))?;
        let catalog = Self { shared, client };
        catalog
            .run(&format!("{begin}; SET LOCAL search_path TO \"{}\"; SET LOCAL enable_seqscan = on", shared.plugin))?;
        Ok(catalog)
    }

    fn end(self, end: &str) -> Result<(), SchemaError> {
        let ended = self.run(end);
        if ended.is_err() {
            drop(Object::take(self.client));
        }
        ended
    }

    /// Ends what went wrong, and gives its error.
    fn give_up<E>(self, error: E) -> E {
        if let Err(error) = self.end("ROLLBACK") {
            tracing::debug!(%error, "the rollback failed; the connection is given up");
        }
        error
    }
}

fn failed(error: &tokio_postgres::Error) -> SchemaError {
    match error.code() {
        Some(code) if code.code().starts_with("23") => SchemaError::Rows(server::told(error)),
        Some(_) | None => store(&errors::fault(error)),
    }
}

impl Database for Catalog<'_> {
    fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }

    fn rows(&self, sql: &str) -> Result<Vec<Vec<Value>>, SchemaError> {
        let rows = self.shared.server.wait(self.client.query(sql, &[])).map_err(|error| failed(&error))?;
        let row = |row: &tokio_postgres::Row| {
            (0..row.len()).map(|at| row.try_get::<_, Cell>(at).map(value).map_err(|error| failed(&error))).collect()
        };
        rows.iter().map(row).collect()
    }

    fn run(&self, sql: &str) -> Result<(), SchemaError> {
        self.shared.server.wait(self.client.batch_execute(sql)).map_err(|error| failed(&error))
    }

    fn inspect(&self) -> Result<Live, SchemaError> {
        catalog::read(self)
    }
}

const LOOK: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

fn look<R>(shared: &Shared, work: impl FnOnce(&dyn Database) -> Result<R, SchemaError>) -> Result<R, SchemaError> {
    let catalog = Catalog::begin(shared, LOOK)?;
    match work(&catalog) {
        Ok(found) => catalog.end("COMMIT").map(|()| found),
        Err(error) => Err(catalog.give_up(error)),
    }
}

/// The steps from what is there to `wanted`.
pub fn plan(shared: &Shared, wanted: &Schema, allow_destructive: &[String]) -> Result<Plan, SchemaError> {
    look(shared, |db| schema::plan(db, wanted, allow_destructive))
}

/// Compares the tables with `wanted`.
pub fn status(shared: &Shared, wanted: &Schema) -> Result<Status, SchemaError> {
    look(shared, |db| schema::status(db, wanted))
}

/// Brings the tables to `wanted`, all of it or nothing. Other hosts that want to do the same wait.
pub fn apply_telling(
    shared: &Shared,
    wanted: &Schema,
    allow_destructive: &[String],
    now: Millis,
    tell: Tell<'_>,
) -> Result<Applied, ApplyError> {
    let lock = number_of(&["oncehost", "schema", &shared.plugin]);
    // READ COMMITTED: what another host applied while this one waited has to be seen. A long change may take its time.
    let begin = format!(
        "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL statement_timeout = 0; SELECT pg_advisory_xact_lock({lock})"
    );
    let catalog = Catalog::begin(shared, &begin)?;
    match bring(&catalog, wanted, allow_destructive, now, tell) {
        Ok(applied) => Ok(catalog.end("COMMIT").map(|()| applied)?),
        Err(error) => Err(catalog.give_up(error)),
    }
}

#[cfg(test)]
mod tests;
