//! Where data is kept.

use std::fmt;

/// The database that a host keeps its data in.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum Store {
    /// Files in the data folder.
    #[default]
    Sqlite,
    /// The database at this URL, which may hold a password.
    Postgres(String),
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Store::Sqlite => "Sqlite",
            Store::Postgres(_) => "Postgres(…)",
        })
    }
}

impl Store {
    /// Whether its data are files in the data folder.
    pub fn is_files(&self) -> bool {
        *self == Store::Sqlite
    }
}

/// Reads the setting.
pub(super) fn store(url: &str) -> Result<Store, String> {
    if url == "sqlite" || url == "sqlite:" {
        return Ok(Store::Sqlite);
    }
    let rest = url.strip_prefix("postgres://").or_else(|| url.strip_prefix("postgresql://"));
    match rest {
        Some(rest) if !rest.is_empty() => Ok(Store::Postgres(url.to_owned())),
        // The URL may hold a password, and is not repeated.
        Some(_) | None => Err("this is no store; leave it out for SQLite in the data folder, or write \
                               postgres://USER:PASSWORD@HOST:PORT/DATABASE"
            .to_owned()),
    }
}
