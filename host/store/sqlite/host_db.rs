//! `DATA/host.db`: what belongs to no plugin.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU32;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::moving::refuse_marked;
use super::{StoreError, fault, files, open_beside_writer, open_versioned};
use crate::clock::Millis;
use crate::store::host_db::TokenRow;

pub mod events;
pub mod notifications;
mod placed;

pub use placed::noted;

/// Its tables, a step a version.
pub(super) const TABLES: [&str; 6] = [
    include_str!("../../../schema/sqlite/host/0001_tokens.sql"),
    include_str!("../../../schema/sqlite/host/0002_events.sql"),
    include_str!("../../../schema/sqlite/host/0003_placed.sql"),
    include_str!("../../../schema/sqlite/host/0004_databases.sql"),
    include_str!("../../../schema/sqlite/host/0005_noted.sql"),
    include_str!("../../../schema/sqlite/host/0006_heard.sql"),
];

/// The host's own database. One connection writes; those who only listen have another, and never wait for a disk.
pub struct HostDb {
    // Dropped first: the last connection brings the log into the file, and only a writer can.
    reader: Mutex<Connection>,
    writer: Mutex<Connection>,
    path: PathBuf,
    inode: u64,
    /// Events whose messages were noted in this process, until they are relayed.
    noted: Mutex<HashSet<String>>,
    /// How often all messages were searched for events that may have theirs.
    searches: AtomicU32,
}

impl HostDb {
    /// Opens or makes `host.db` in the data folder.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] with a sentence for the operator: not a database, a newer version, no access.
    pub fn open(data: &Path) -> Result<Self, StoreError> {
        let path = data.join("host.db");
        let writer = open_versioned(&path, &TABLES)?;
        refuse_marked(&writer, &path)?;
        let writer = Mutex::new(writer);
        let (reader, inode) = (Mutex::new(open_beside_writer(&path)?), files::inode(&path));
        Ok(Self { writer, reader, path, inode, noted: Mutex::default(), searches: AtomicU32::default() })
    }

    fn lock(&self) -> Result<MutexGuard<'_, Connection>, StoreError> {
        self.check()?;
        Ok(self.writer.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Sees that the file is still where it was opened: what is written to one that is not is lost with it.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] with what to do.
    pub fn check(&self) -> Result<(), StoreError> {
        if files::inode(&self.path) == self.inode {
            return Ok(());
        }
        // Callers see this, and paths are none of their business.
        Err(StoreError::Unavailable(
            "host.db was taken away or replaced while the host runs: put it back, or stop the host and restore a backup".to_owned(),
        ))
    }

    fn reading(&self) -> MutexGuard<'_, Connection> {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a new token; it is on disk when this returns.
    ///
    /// # Errors
    /// When the database fails.
    pub fn add_token(&self, token: &TokenRow) -> Result<(), StoreError> {
        let sql = "INSERT INTO tokens (id, hash, tail, tenant, subject, scopes, created_at, expires_at, revoked_at) \
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
        let TokenRow { id, hash, tail, tenant, subject, scopes, created_at, expires_at, revoked_at } = token;
        let scopes = scopes.join(" ");
        self.lock()?
            .execute(sql, params![id, hash, tail, tenant, subject, scopes, created_at, expires_at, revoked_at])
            .map(drop)
            .map_err(|error| fault(&error))
    }

    /// All tokens, the oldest first.
    ///
    /// # Errors
    /// When the database fails.
    pub fn tokens(&self) -> Result<Vec<TokenRow>, StoreError> {
        let connection = self.lock()?;
        let found = connection
            .prepare_cached(&format!("{SELECT_TOKEN} ORDER BY id"))
            .and_then(|mut statement| statement.query_map([], token)?.collect());
        found.map_err(|error| fault(&error))
    }

    /// Marks a token as revoked, for good on disk when this returns. A second time changes nothing. `None` when there
    /// is no such token.
    ///
    /// # Errors
    /// When the database fails.
    pub fn revoke_token(&self, id: &str, now: Millis) -> Result<Option<TokenRow>, StoreError> {
        let connection = self.lock()?;
        let revoked = connection
            .execute("UPDATE tokens SET revoked_at = ?2 WHERE id = ?1 AND revoked_at IS NULL", params![id, now])
            .and_then(|_| connection.query_row(&format!("{SELECT_TOKEN} WHERE id = ?1"), [id], token).optional());
        revoked.map_err(|error| fault(&error))
    }

    /// Forgets tokens that were revoked or expired before `before`.
    ///
    /// # Errors
    /// When the database fails.
    pub fn clear_tokens(&self, before: Millis) -> Result<usize, StoreError> {
        self.lock()?
            .execute("DELETE FROM tokens WHERE revoked_at < ?1 OR expires_at < ?1", [before])
            .map_err(|error| fault(&error))
    }
}

const SELECT_TOKEN: &str =
    "SELECT id, hash, tail, tenant, subject, scopes, created_at, expires_at, revoked_at FROM tokens";

fn token(row: &Row<'_>) -> rusqlite::Result<TokenRow> {
    let scopes: String = row.get(5)?;
    Ok(TokenRow {
        id: row.get(0)?,
        hash: row.get(1)?,
        tail: row.get(2)?,
        tenant: row.get(3)?,
        subject: row.get(4)?,
        scopes: scopes.split_whitespace().map(str::to_owned).collect(),
        created_at: row.get(6)?,
        expires_at: row.get(7)?,
        revoked_at: row.get(8)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: &str, expires_at: Option<Millis>) -> TokenRow {
        let mut hash = [0; 32];
        hash[..id.len()].copy_from_slice(id.as_bytes());
        let (tenant, subject) = ("acme".to_owned(), "ann".to_owned());
        let scopes = vec!["invoke:orders".to_owned(), "operator".to_owned()];
        let tail = "beef".to_owned();
        TokenRow { id: id.to_owned(), hash, tail, tenant, subject, scopes, created_at: 5, expires_at, revoked_at: None }
    }

    #[test]
    fn tokens_outlive_the_connection() {
        let folder = tempfile::tempdir().unwrap();
        let db = HostDb::open(folder.path()).unwrap();
        db.add_token(&row("a", Some(9))).unwrap();
        db.add_token(&row("b", None)).unwrap();
        drop(db);
        let db = HostDb::open(folder.path()).unwrap();
        assert_eq!(db.tokens().unwrap(), [row("a", Some(9)), row("b", None)]);
    }

    #[test]
    fn revoking_keeps_the_first_instant_and_knows_what_is_not_there() {
        let folder = tempfile::tempdir().unwrap();
        let db = HostDb::open(folder.path()).unwrap();
        db.add_token(&row("a", None)).unwrap();
        assert_eq!(db.revoke_token("a", 7).unwrap().unwrap().revoked_at, Some(7));
        assert_eq!(db.revoke_token("a", 8).unwrap().unwrap().revoked_at, Some(7));
        assert_eq!(db.revoke_token("b", 8).unwrap(), None);
    }

    #[test]
    fn clearing_forgets_only_what_has_long_been_over() {
        let folder = tempfile::tempdir().unwrap();
        let db = HostDb::open(folder.path()).unwrap();
        for token in [row("old", Some(10)), row("late", Some(30)), row("kept", None), row("revoked", None)] {
            db.add_token(&token).unwrap();
        }
        db.revoke_token("revoked", 10).unwrap();
        assert_eq!(db.clear_tokens(20).unwrap(), 2);
        let left: Vec<_> = db.tokens().unwrap().into_iter().map(|token| token.id).collect();
        assert_eq!(left, ["kept", "late"]);
    }

    #[test]
    fn database_of_a_newer_version_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        drop(HostDb::open(folder.path()).unwrap());
        Connection::open(folder.path().join("host.db")).unwrap().pragma_update(None, "user_version", 99).unwrap();
        let Err(error) = HostDb::open(folder.path()) else { panic!("opened") };
        assert!(error.to_string().contains("newer oncehost"), "{error}");
    }
}
