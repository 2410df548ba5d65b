//! Where data rests: the tables of plugins and the host's own records about them.
//!
//! What stands above this module knows [`Database`], [`Shared`], [`Tx`] and the verbs (`records`, `keys`, `workflows`,
//! `outbox`, `tables`, `host_db`); which database is behind them is known in here only. A verb is a function of the same
//! name in the folder of each database, and a line in `verbs!` that finds the right one.

use serde_json::Value as Json;

use crate::failure::{Code, Failure};

/// Declares verbs: functions that take a [`Tx`] and pass on to the function of the same name, in the module of the
/// same name, of the database that the transaction is in.
macro_rules! verbs {
    ($module:ident: $($(#[$about:meta])* $vis:vis fn $verb:ident(tx $(, $arg:ident: $ty:ty)* $(,)?) -> $gives:ty;)+) => {$(
        $(#[$about])*
        $vis fn $verb(tx: &$crate::store::Tx $(, $arg: $ty)*) -> Result<$gives, $crate::store::StoreError> {
            match tx {
                $crate::store::Tx::Sqlite(tx) => $crate::store::sqlite::$module::$verb(tx $(, $arg)*),
                $crate::store::Tx::Postgres(tx) => $crate::store::postgres::$module::$verb(tx $(, $arg)*),
            }
        }
    )+};
}

mod clash;
pub mod deliveries;
pub mod host_db;
pub mod keys;
pub mod moving;
mod notice;
pub mod outbox;
pub mod postgres;
pub mod records;
pub mod schedules;
mod session;
pub mod sqlite;
pub mod steps;
mod stores;
pub mod tables;
mod words;
pub mod workflows;

#[cfg(test)]
mod leases_tests;

pub use notice::Notice;
pub use session::{Access, Alone, Database, Fate, Hold, Shared, Tx};
pub use stores::{Lost, Stores};

/// What can go wrong in the database.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A unique index or primary key already holds these values.
    #[error("{0}")]
    Duplicate(String),
    /// NOT NULL, CHECK or a foreign key.
    #[error("{0}")]
    Constraint(String),
    /// One of the two above, with facts for programs: `{ table, columns }` or `{ table, constraint }`.
    #[error("{error}")]
    Broken { error: Box<StoreError>, details: Json },
    /// A table, column or index is missing; the text has the DDL that would add it.
    #[error("{0}")]
    Schema(String),
    /// A read took too long and was interrupted.
    #[error("{0}")]
    Slow(String),
    /// Another try of the same key still runs.
    #[error("{0}")]
    InProgress(String),
    /// A read's rows hold more bytes than a call may take into memory.
    #[error("{0}")]
    Large(String),
    /// The transaction this work belonged to is gone: rolled back by the database or taken away by the watchdog.
    #[error("{0}")]
    Gone(String),
    /// The database cannot be reached, is full, or failed.
    #[error("{0}")]
    Unavailable(String),
}

impl StoreError {
    /// The same with facts for programs.
    #[must_use]
    pub fn with(self, details: Json) -> Self {
        StoreError::Broken { error: Box::new(self), details }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let code = match error {
            StoreError::Broken { error, details } => return Failure::from(*error).with_details(details),
            StoreError::Duplicate(_) => Code::Duplicate,
            StoreError::Constraint(_) => Code::Constraint,
            StoreError::Schema(_) => Code::Schema,
            StoreError::Slow(_) | StoreError::Large(_) => Code::Limit,
            StoreError::InProgress(_) => Code::KeyInProgress,
            StoreError::Gone(_) | StoreError::Unavailable(_) => Code::Unavailable,
        };
        Failure::new(code, error.to_string())
    }
}
