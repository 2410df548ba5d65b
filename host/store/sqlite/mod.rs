//! SQLite: one database file per plugin, so that an invocation is one local commit.

use std::sync::{Arc, Mutex};

use rusqlite::Connection;

use super::StoreError;

mod errors;
pub mod records;

/// A script's hold on the transaction it runs in. The connection is taken per host call, so that a run that hangs
/// outside host calls can be parted from its transaction.
#[derive(Clone)]
pub struct Tx {
    connection: Arc<Mutex<Connection>>,
}

impl Tx {
    /// A hold on whatever transaction `connection` is in.
    pub fn new(connection: Arc<Mutex<Connection>>) -> Self {
        Self { connection }
    }

    /// Runs `work` on the connection.
    ///
    /// # Errors
    /// What `work` gives, or [`StoreError::Gone`] when this run was parted from its transaction.
    pub fn with<R>(&self, work: impl FnOnce(&Connection) -> Result<R, StoreError>) -> Result<R, StoreError> {
        let connection = match self.connection.lock() {
            Ok(connection) => connection,
            Err(poisoned) => poisoned.into_inner(),
        };
        work(&connection)
    }
}
