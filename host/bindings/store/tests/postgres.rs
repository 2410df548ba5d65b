//! The tests on Postgres.

use super::*;

type Fixture = super::Fixture<super::Postgres>;

#[path = "arguments.rs"]
mod arguments;
#[path = "filters.rs"]
mod filters;
#[path = "paging.rs"]
mod paging;
#[path = "values.rs"]
mod values;
#[path = "writing.rs"]
mod writing;
