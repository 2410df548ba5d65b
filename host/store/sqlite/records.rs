//! The rows of plugins' tables, in SQL.
