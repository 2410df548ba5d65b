//! Where data rests: the tables of plugins and the host's own records about them.

use crate::failure::{Code, Failure};

pub mod sqlite;

/// What can go wrong in the database.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A unique index or primary key already holds these values.
    #[error("{0}")]
    Duplicate(String),
    /// NOT NULL, CHECK or a foreign key.
    #[error("{0}")]
    Constraint(String),
    /// A table, column or index is missing; the text has the DDL that would add it.
    #[error("{0}")]
    Schema(String),
    /// A read took too long and was interrupted.
    #[error("{0}")]
    Slow(String),
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

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let code = match error {
            StoreError::Duplicate(_) => Code::Duplicate,
            StoreError::Constraint(_) => Code::Constraint,
            StoreError::Schema(_) => Code::Schema,
            StoreError::Slow(_) | StoreError::Large(_) => Code::Limit,
            StoreError::Gone(_) | StoreError::Unavailable(_) => Code::Unavailable,
        };
        Failure::new(code, error.to_string())
    }
}
