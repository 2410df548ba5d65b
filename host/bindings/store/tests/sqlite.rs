//! The tests on SQLite.

use super::*;

type Fixture = super::Fixture<super::Sqlite>;

#[path = "arguments.rs"]
mod arguments;
#[path = "by_hand.rs"]
mod by_hand;
#[path = "filters.rs"]
mod filters;
#[path = "paging.rs"]
mod paging;
#[path = "values.rs"]
mod values;
#[path = "writing.rs"]
mod writing;
