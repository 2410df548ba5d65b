//! Which database a host's data rest in.

use std::path::PathBuf;
use std::sync::Arc;
use std::{fs, io};

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

    /// Whether the settings can be used. Nothing is opened or connected.
    ///
    /// # Errors
    /// What is wrong with them, with the right form.
    pub fn check(settings: &Settings) -> Result<(), String> {
        match &settings.store {
            Store::Sqlite => Ok(()),
            Store::Postgres(url) => postgres::check_url(url),
        }
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

    /// The plugins that have a database, loaded or not, sorted.
    ///
    /// # Errors
    /// When the folder or the server cannot be read.
    pub fn plugins(&self) -> Result<Vec<String>, StoreError> {
        let folder = match self {
            Stores::Postgres(server) => return server.plugins(),
            Stores::Sqlite(folder) => folder,
        };
        let unread = |error: io::Error| StoreError::Unavailable(format!("the data folder cannot be read: {error}"));
        let mut plugins = Vec::new();
        for entry in fs::read_dir(folder).map_err(unread)? {
            let entry = entry.map_err(unread)?;
            let name = entry.file_name();
            let id = name.to_str().and_then(|name| name.strip_suffix(".db")).filter(|id| *id != "host" && is_id(id));
            if let Some(id) = id
                && entry.file_type().map_err(unread)?.is_file()
            {
                plugins.push(id.to_owned());
            }
        }
        plugins.sort_unstable();
        Ok(plugins)
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

/// Whether a file of this name can be a plugin's.
fn is_id(stem: &str) -> bool {
    !stem.is_empty() && stem.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}
