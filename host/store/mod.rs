//! Where data rests: the tables of plugins and the host's own records about them.

pub mod sqlite;

pub use crate::failure::StoreError;
