//! What belongs to no plugin.

use std::path::Path;

use super::{StoreError, postgres, sqlite};
use crate::clock::Millis;

mod events;
mod hosts;
mod placed;

pub use events::{Accepted, AcceptedEvent, Incoming, Message, Placed, Subscribed};
pub use hosts::HostRow;
pub use placed::PlacedRow;

/// A token as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRow {
    pub id: String,
    /// SHA-256 of the secret.
    pub hash: [u8; 32],
    /// The secret's last four characters.
    pub tail: String,
    pub tenant: String,
    pub subject: String,
    pub scopes: Vec<String>,
    pub created_at: Millis,
    /// `None`: never.
    pub expires_at: Option<Millis>,
    pub revoked_at: Option<Millis>,
}

/// The host's own database. Little is written to it, and never by an invocation.
pub enum HostDb {
    Sqlite(Box<sqlite::host_db::HostDb>),
    Postgres(postgres::host_db::HostDb),
}

impl HostDb {
    /// Opens or makes `host.db` in the data folder.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] with a sentence for the operator: not a database, a newer version, no access.
    pub fn open(data: &Path) -> Result<Self, StoreError> {
        sqlite::host_db::HostDb::open(data).map(|db| HostDb::Sqlite(Box::new(db)))
    }

    /// The same on a Postgres server, for all hosts that share it.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] with a sentence for the operator.
    pub fn on(server: &std::sync::Arc<postgres::Server>) -> Result<Self, StoreError> {
        postgres::host_db::HostDb::open(server).map(HostDb::Postgres)
    }

    /// Sees that it can be written.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] with what to do.
    pub fn check(&self) -> Result<(), StoreError> {
        match self {
            HostDb::Sqlite(db) => db.check(),
            // Whether the server answers is looked at for all of its databases.
            HostDb::Postgres(_) => Ok(()),
        }
    }

    /// Keeps a new token; it is on disk when this returns.
    ///
    /// # Errors
    /// When the database fails.
    pub fn add_token(&self, token: &TokenRow) -> Result<(), StoreError> {
        match self {
            HostDb::Sqlite(db) => db.add_token(token),
            HostDb::Postgres(db) => db.add_token(token),
        }
    }

    /// All tokens, the oldest first.
    ///
    /// # Errors
    /// When the database fails.
    pub fn tokens(&self) -> Result<Vec<TokenRow>, StoreError> {
        match self {
            HostDb::Sqlite(db) => db.tokens(),
            HostDb::Postgres(db) => db.tokens(),
        }
    }

    /// Marks a token as revoked, for good on disk when this returns. A second time changes nothing. `None` when there
    /// is no such token.
    ///
    /// # Errors
    /// When the database fails.
    pub fn revoke_token(&self, id: &str, now: Millis) -> Result<Option<TokenRow>, StoreError> {
        match self {
            HostDb::Sqlite(db) => db.revoke_token(id, now),
            HostDb::Postgres(db) => db.revoke_token(id, now),
        }
    }

    /// Forgets tokens that were revoked or expired before `before`.
    ///
    /// # Errors
    /// When the database fails.
    pub fn clear_tokens(&self, before: Millis) -> Result<usize, StoreError> {
        match self {
            HostDb::Sqlite(db) => db.clear_tokens(before),
            HostDb::Postgres(db) => db.clear_tokens(before),
        }
    }
}
