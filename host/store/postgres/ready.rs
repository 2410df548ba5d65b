//! The host's own tables on a server, made ready before a schema is used.

use super::server::{HOST_SCHEMA, told};
use super::{Server, StoreError, moving, number_of};

/// The host's own tables in a plugin's schema, and those that belong to no plugin: a step a version.
pub(super) const PLUGIN_TABLES: [&str; 4] = [
    include_str!("../../../schema/postgres/0001_host.sql"),
    include_str!("../../../schema/postgres/0002_turns.sql"),
    include_str!("../../../schema/postgres/0003_owner.sql"),
    include_str!("../../../schema/postgres/0004_details.sql"),
];
const HOST_TABLES: [&str; 5] = [
    include_str!("../../../schema/postgres/host/0001_tokens.sql"),
    include_str!("../../../schema/postgres/host/0002_events.sql"),
    include_str!("../../../schema/postgres/host/0003_hosts.sql"),
    include_str!("../../../schema/postgres/host/0004_places.sql"),
    include_str!("../../../schema/postgres/host/0005_placed.sql"),
];

/// The newest version of the host's own tables that is known here: of those that belong to no plugin, or of a plugin's.
pub(super) fn newest_tables(host: bool) -> i64 {
    i64::try_from(if host { HOST_TABLES.len() } else { PLUGIN_TABLES.len() }).unwrap_or(i64::MAX)
}

/// The oldest server that will do, as it says its version in a number.
const OLDEST: i64 = 140_000;

impl Server {
    /// Makes the schema of a plugin, or of the host, with the host's own tables at their newest version, unless that
    /// was done already.
    ///
    /// # Errors
    /// When the database fails, or was written by a newer version.
    pub(super) async fn make_ready(&self, schema: &str) -> Result<(), StoreError> {
        if self.ready().contains(schema) {
            return Ok(());
        }
        let steps: &[&str] = if schema == HOST_SCHEMA { &HOST_TABLES } else { &PLUGIN_TABLES };
        let mut client = self.connect_telling().await?;
        let failed = |error: tokio_postgres::Error| {
            StoreError::Unavailable(format!(
                "the schema {schema} of {} cannot be made ready: {}; the host needs the right to create schemas there",
                self.place(),
                told(&error)
            ))
        };
        let newest = i64::try_from(steps.len()).unwrap_or(i64::MAX);
        let transaction = client.transaction().await.map_err(failed)?;
        // Others that start at this moment wait until it is there.
        let lock = number_of(&["oncehost", "tables", schema]);
        transaction.execute("SELECT pg_advisory_xact_lock($1)", &[&lock]).await.map_err(failed)?;
        if self.heeds_marks()
            && let Some(why) = moving::refusal(&*transaction, schema).await.map_err(failed)?
        {
            return Err(StoreError::Unavailable(why));
        }
        transaction
            .batch_execute(&format!(
                "CREATE SCHEMA IF NOT EXISTS \"{schema}\"; SET LOCAL search_path TO \"{schema}\"; \
                 CREATE TABLE IF NOT EXISTS _oncehost_version (version BIGINT NOT NULL)"
            ))
            .await
            .map_err(failed)?;
        let state = "SELECT coalesce(max(version), 0), current_setting('server_encoding'), \
                     current_setting('server_version_num')::bigint, current_setting('server_version') \
                     FROM _oncehost_version";
        let row = transaction.query_one(state, &[]).await.map_err(failed)?;
        let found: i64 = row.try_get(0).map_err(failed)?;
        let (encoding, number) = (row.try_get(1).map_err(failed)?, row.try_get(2).map_err(failed)?);
        must_do(self.place(), encoding, number, row.try_get(3).map_err(failed)?)?;
        if found > newest {
            return Err(StoreError::Unavailable(format!(
                "the schema {schema} of {} was written by a newer oncehost (host tables version {found}, this one knows \
                 {newest}); start that version again",
                self.place()
            )));
        }
        if found == 0 {
            let first = "SELECT 1 FROM pg_class WHERE relname IN ('_oncehost_keys', 'tokens') \
                         AND relnamespace = current_schema()::regnamespace";
            if transaction.query_opt(first, &[]).await.map_err(failed)?.is_some() {
                return Err(StoreError::Unavailable(format!(
                    "the schema {schema} of {} has the host's tables, but their version is gone from _oncehost_version; \
                     restore the newest backup, or, where this version of oncehost wrote it last, run \
                     CREATE TABLE IF NOT EXISTS \"{schema}\"._oncehost_version (version BIGINT NOT NULL); \
                     INSERT INTO \"{schema}\"._oncehost_version VALUES ({newest})",
                    self.place()
                )));
            }
        }
        for (at, step) in steps.iter().enumerate().skip(usize::try_from(found).unwrap_or(0)) {
            transaction.batch_execute(step).await.map_err(failed)?;
            let version = i64::try_from(at + 1).unwrap_or(i64::MAX);
            transaction.execute("INSERT INTO _oncehost_version VALUES ($1)", &[&version]).await.map_err(failed)?;
        }
        transaction.commit().await.map_err(failed)?;
        self.ready().insert(schema.to_owned());
        Ok(())
    }
}

/// Refuses a database with another encoding than the host's, and a server that is too old.
fn must_do(place: &str, encoding: &str, number: i64, version: &str) -> Result<(), StoreError> {
    if number < OLDEST {
        return Err(StoreError::Unavailable(format!(
            "the database {place} is on Postgres {version}, and the host needs 14 or newer; bring the server there, or name \
             another in the setting store"
        )));
    }
    if encoding != "UTF8" {
        return Err(StoreError::Unavailable(format!(
            "the database {place} keeps text as {encoding}; the host needs one made with ENCODING 'UTF8'"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_before_14_is_refused_with_its_version_and_what_is_needed() {
        // As servers say them.
        let old = must_do("postgres://db/shop", "UTF8", 130_022, "13.22 (Debian 13.22-0+deb11u1)").unwrap_err();
        for says in ["postgres://db/shop", "Postgres 13.22", "14 or newer"] {
            assert!(old.to_string().contains(says), "{old}");
        }
        for (number, version) in [(140_000, "14.0"), (150_018, "15.18"), (180_001, "18.1")] {
            assert!(must_do("postgres://db/shop", "UTF8", number, version).is_ok(), "{version}");
        }
    }
}
