//! The query language of `store`: `where`, `orderBy`, cursors (spec §4), checked against the schema model.
//!
//! Script values come in, a typed [`Filter`] and [`Order`] come out, and `sql` writes those down with parameters.
//! Nothing that a script says reaches SQL as text: names are looked up and then taken from the model.

pub mod column;
pub mod cursor;
pub mod filter;
pub mod names;
pub mod order;
pub mod sql;

pub use column::Cell;
pub use filter::{Compare, Filter, Purpose, Test};
pub use order::Order;
