//! Plugins' tables against what their `schema.sql` wants, in one transaction, one host at a time.

use std::collections::BTreeMap;
use std::sync::Arc;

use deadpool_postgres::Object;

use super::cells::value;
use super::{Access, Fate, Server, Shared, StoreError, Tx, errors, in_use, number_of, own, server};
use crate::clock::Millis;
use crate::codec::Value;
use crate::query::Cell;
use crate::schema::inspect::Live;
use crate::schema::{self, Applied, ApplyError, Database, Dialect, Schema, SchemaError, Tell, bring, catalog};
use crate::store::tables::Own;

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

fn values(row: &tokio_postgres::Row) -> Result<Vec<Value>, SchemaError> {
    (0..row.len()).map(|at| row.try_get::<_, Cell>(at).map(value).map_err(|error| failed(&error))).collect()
}

impl Database for Catalog<'_> {
    fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }

    fn rows(&self, sql: &str) -> Result<Vec<Vec<Value>>, SchemaError> {
        let rows = self.shared.server.wait(self.client.query(sql, &[])).map_err(|error| failed(&error))?;
        rows.iter().map(values).collect()
    }

    fn run(&self, sql: &str) -> Result<(), SchemaError> {
        self.shared.server.wait(self.client.batch_execute(sql)).map_err(|error| failed(&error))
    }

    fn inspect(&self) -> Result<Live, SchemaError> {
        catalog::read(self)
    }
}

/// A transaction under way, as a catalog.
struct Within<'a>(&'a Tx);

impl Database for Within<'_> {
    fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }

    fn rows(&self, sql: &str) -> Result<Vec<Vec<Value>>, SchemaError> {
        let rows = self.0.query(sql, &[]).map_err(|error| store(&error))?;
        rows.iter().map(values).collect()
    }

    fn run(&self, sql: &str) -> Result<(), SchemaError> {
        self.0.execute(sql).map_err(|error| store(&error))
    }

    fn inspect(&self) -> Result<Live, SchemaError> {
        catalog::read(self)
    }
}

impl Tx {
    /// See [`crate::store::Tx::misfits`].
    ///
    /// # Errors
    /// When the database fails, or the transaction is gone.
    pub fn misfits(&self, wanted: &Schema) -> Result<BTreeMap<String, String>, StoreError> {
        self.found(self.in_schema(|| schema::misfits(&Within(self), wanted))?)
    }

    /// See [`crate::store::Tx::are_tables_anothers`].
    ///
    /// # Errors
    /// When the database fails, or the transaction is gone.
    pub fn are_tables_anothers(&self, wanted: &Schema) -> Result<bool, StoreError> {
        self.found(self.in_schema(|| schema::are_anothers(&Within(self), wanted))?)
    }

    fn found<R>(&self, found: Result<R, SchemaError>) -> Result<R, StoreError> {
        found.map_err(|error| match self.fate() {
            Fate::Open => StoreError::Unavailable(error.to_string()),
            Fate::Again | Fate::Parted | Fate::Ended | Fate::Away | Fate::Refused => super::gone(),
        })
    }

    /// Does `work` with the plugin's schema as the current one, which it is not otherwise.
    fn in_schema<R>(&self, work: impl FnOnce() -> R) -> Result<R, StoreError> {
        let set = "SELECT set_config('search_path', $1::text, TRUE)";
        let before = self.query("SELECT current_setting('search_path')", &[])?;
        let before: String = before.first().map_or_else(|| Ok(String::new()), |row| super::get(row, 0))?;
        self.query(set, &[super::text(&format!("\"{}\"", self.shared.plugin))])?;
        let done = work();
        if self.fate() == Fate::Open {
            self.query(set, &[super::text(&before)])?;
        }
        Ok(done)
    }
}

const LOOK: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

fn within<R>(
    shared: &Shared,
    begin: &str,
    work: impl FnOnce(&Catalog) -> Result<R, SchemaError>,
) -> Result<R, SchemaError> {
    let catalog = Catalog::begin(shared, begin)?;
    match work(&catalog) {
        Ok(found) => catalog.end("COMMIT").map(|()| found),
        Err(error) => Err(catalog.give_up(error)),
    }
}

/// Looks at a plugin's schema at one moment; one that is not there is taken as empty, and is not made.
pub fn look<R>(
    server: &Arc<Server>,
    plugin: &str,
    work: impl FnOnce(&dyn Database, Vec<Own>) -> Result<R, SchemaError>,
) -> Result<R, SchemaError> {
    let shared = Shared::as_is(server, plugin, Access::Read);
    within(&shared, LOOK, |catalog| work(catalog, own::missing(catalog)?))
}

/// The host's own tables and indexes that are not there any more.
pub fn missing(shared: &Shared) -> Result<Vec<Own>, SchemaError> {
    within(shared, LOOK, |catalog| own::missing(catalog))
}

/// Makes them again, empty.
pub fn mend(shared: &Shared, missing: &[Own]) -> Result<(), SchemaError> {
    within(shared, "BEGIN", |catalog| missing.iter().try_for_each(|own| catalog.run(&own.sql)))
}

/// The tables that are there.
pub fn live(shared: &Shared) -> Result<Live, SchemaError> {
    within(shared, LOOK, |catalog| catalog.inspect())
}

/// Brings the tables to `wanted`, all of it or nothing. Other hosts that want to do the same wait.
pub fn apply_telling(
    shared: &Shared,
    wanted: &Schema,
    allow_destructive: &[String],
    now: Millis,
    tell: Tell<'_>,
) -> Result<Applied, ApplyError> {
    change(shared, |db| bring(db, wanted, allow_destructive, now, tell))
}

/// Changes the tables, in one transaction and one host at a time.
pub fn change<R, E: From<SchemaError>>(
    shared: &Shared,
    work: impl FnOnce(&dyn Database) -> Result<R, E>,
) -> Result<R, E> {
    let lock = number_of(&["oncehost", "schema", &shared.plugin]);
    // READ COMMITTED: what another host applied while this one waited has to be seen. A long change may take its time.
    let begin = format!(
        "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL statement_timeout = 0; SELECT pg_advisory_xact_lock({lock}); \
         SELECT pg_advisory_xact_lock({})",
        in_use::lock(&shared.plugin)
    );
    let catalog = Catalog::begin(shared, &begin)?;
    match work(&catalog) {
        Ok(done) => {
            crate::crash_point!("schema-before-commit");
            let ended = catalog.end("COMMIT");
            // Whoever began before looks again.
            shared.server.saw_tables(&shared.plugin, None);
            ended?;
            crate::crash_point!("schema-after-commit");
            Ok(done)
        }
        Err(error) => Err(catalog.give_up(error)),
    }
}

#[cfg(test)]
mod tests;
