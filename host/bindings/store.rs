//! `store.*`: arguments are checked against the schema model, turned into statements, and their rows into values.

use super::Bindings;
use crate::codec::Value;
use crate::failure::{Code, Failure};

fn placeholder() -> Result<Value, Failure> {
    Err(Failure::new(Code::Unavailable, "placeholder"))
}

/// `store.createIfAbsent(table, record, uniqueBy)` gives `{ record, created }`.
pub(super) fn create_if_absent(_host: &mut Bindings, _args: &[Value]) -> Result<Value, Failure> {
    placeholder()
}

/// `store.update(table, where, patch)` gives `{ affected }`.
pub(super) fn update(_host: &mut Bindings, _args: &[Value]) -> Result<Value, Failure> {
    placeholder()
}

/// `store.delete(table, where)` gives `{ affected }`.
pub(super) fn delete(_host: &mut Bindings, _args: &[Value]) -> Result<Value, Failure> {
    placeholder()
}

/// `store.get(table, where)` gives the record or `null`.
pub(super) fn get(_host: &mut Bindings, _args: &[Value]) -> Result<Value, Failure> {
    placeholder()
}

/// `store.list(table, options)` gives `{ records, nextCursor }`.
pub(super) fn list(_host: &mut Bindings, _args: &[Value]) -> Result<Value, Failure> {
    placeholder()
}

/// `store.count(table, where)` gives `{ count }`.
pub(super) fn count(_host: &mut Bindings, _args: &[Value]) -> Result<Value, Failure> {
    placeholder()
}
