//! Which database a host's data rest in.

use std::path::PathBuf;
use std::sync::Arc;

use super::host_db::HostDb;
use super::{Database, StoreError, postgres};
use crate::config::{Settings, Store};

/// All databases of a host.
#[derive(Debug)]
pub enum Stores {
    /// A file for each plugin in this folder, and one for what belongs to no plugin.
    Sqlite(PathBuf),
    /// A schema for each plugin, and one for what belongs to no plugin.
    Postgres(Arc<postgres::Server>),
}

impl Stores {
    /// The databases that the settings name. Nothing is opened yet.
    ///
    /// # Errors
    /// When the settings cannot be used.
    pub fn new(settings: &Settings) -> Result<Self, StoreError> {
        Ok(match &settings.store {
            Store::Sqlite => Stores::Sqlite(settings.data.clone()),
            Store::Postgres(url) => {
                let (connections, lock_wait) = (settings.store_connections, settings.key_wait);
                Stores::Postgres(postgres::Server::new(url, postgres::Limits { connections, lock_wait })?)
            }
        })
    }

    /// Where a plugin's rows rest.
    pub fn plugin(&self, id: &str) -> Database {
        match self {
            Stores::Sqlite(folder) => Database::Sqlite(folder.join(format!("{id}.db"))),
            Stores::Postgres(server) => Database::Postgres(server.clone(), id.to_owned()),
        }
    }

    /// Opens what belongs to no plugin.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] with a sentence for the operator.
    pub fn host_db(&self) -> Result<HostDb, StoreError> {
        match self {
            Stores::Sqlite(folder) => HostDb::open(folder),
            Stores::Postgres(server) => HostDb::on(server),
        }
    }

    /// Whether other hosts work on the same data.
    pub fn is_shared(&self) -> bool {
        matches!(self, Stores::Postgres(_))
    }

    /// Whether the database can be reached, as it was found last. Takes no time.
    ///
    /// # Errors
    /// Why not.
    pub fn ready(&self) -> Result<(), String> {
        match self {
            Stores::Sqlite(_) => Ok(()),
            Stores::Postgres(server) => server.pulse(),
        }
    }
}
