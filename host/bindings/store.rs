//! `store.*`: arguments are checked against the schema model, turned into statements, and their rows into values.

use std::sync::atomic::Ordering;

use super::{Bindings, Scope};
use crate::codec::{Value, time};
use crate::failure::{Code, Failure};
use crate::query::sql::{Set, Target, script_names};
use crate::query::{Cell, Filter, Purpose, column, cursor, filter, names, order};
use crate::schema::{ColumnType, Dialect, Table, missing_unique, missing_unique_ddl};
use crate::store::{Tx, records};

/// `limit` of `store.list`, when it is left out and at most.
const LIMIT: i64 = 100;
const MAX_LIMIT: i64 = 1_000;

/// What a call needs of the plugin and of the invocation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Need {
    Read,
    Write,
}

/// `store.createIfAbsent(table, record, uniqueBy)` gives `{ record, created }`.
pub(super) fn create_if_absent(host: &mut Bindings, args: &[Value]) -> Result<Value, Failure> {
    let call = Call::open(&host.scope, &host.tx, "createIfAbsent(table, record, uniqueBy)", args, 3, Need::Write)?;
    let dialect = host.tx.dialect();
    let (cells, unique) = call.named(|| {
        let cells = record(&host.scope, call.target.table, call.args[1])?;
        let unique = unique_by(dialect, call.target, call.args[2], call.args[1])?;
        Ok((cells, unique))
    })?;
    let (cells, created) = records::create_if_absent(&host.tx, call.target, cells, &unique)?;
    let record = shown(call.target, cells)?;
    Ok(object([("record", record), ("created", Value::Bool(created))]))
}

/// `store.update(table, where, patch)` gives `{ affected }`.
pub(super) fn update(host: &mut Bindings, args: &[Value]) -> Result<Value, Failure> {
    let call = Call::open(&host.scope, &host.tx, "update(table, where, patch)", args, 3, Need::Write)?;
    let (filter, sets) = call.named(|| {
        let filter = filter::parse(call.target.table, call.args[1], Purpose::Change)?;
        Ok((filter, patch(&host.scope, call.target.table, call.args[2])?))
    })?;
    let found = matches_any(host, call.target, &filter)?;
    let affected = if found { records::update(&host.tx, call.target, &sets, &filter)? } else { 0 };
    Ok(object([("affected", number(affected))]))
}

/// `store.delete(table, where)` gives `{ affected }`.
pub(super) fn delete(host: &mut Bindings, args: &[Value]) -> Result<Value, Failure> {
    let call = Call::open(&host.scope, &host.tx, "delete(table, where)", args, 2, Need::Write)?;
    let filter = call.named(|| filter::parse(call.target.table, call.args[1], Purpose::Change))?;
    let found = matches_any(host, call.target, &filter)?;
    let affected = if found { records::delete(&host.tx, call.target, &filter)? } else { 0 };
    Ok(object([("affected", number(affected))]))
}

/// Refuses a table whose rows are in another form in the database than the plugin's version says.
fn fits(scope: &Scope, tx: &Tx, table: &Table) -> Result<(), Failure> {
    let plugin = &scope.plugin;
    let version = tx.tables_version()?;
    if plugin.tables_fit.load(Ordering::Relaxed) == version {
        return Ok(());
    }
    let misfits = tx.misfits(&plugin.schema)?;
    if misfits.is_empty() {
        plugin.tables_fit.store(version, Ordering::Relaxed);
    }
    misfits.get(&table.name).map_or(Ok(()), |why| {
        let text = format!(
            "{why}: the change of schema.sql is not applied; run oncehost schema plan {0}, then \
                            oncehost schema apply {0}",
            plugin.id
        );
        Err(Failure::new(Code::Schema, text))
    })
}

/// Looks for the rows of an update or delete first, as a read: unlike a write, that can be stopped at the run's time
/// limit without losing the whole transaction. Where the primary key is given there is nothing to search.
fn matches_any(host: &Bindings, target: Target<'_>, filter: &Filter) -> Result<bool, Failure> {
    Ok(filter.names_one(target.table) || records::count(&host.tx, target, filter)? > 0)
}

/// `store.get(table, where)` gives the record or `null`.
pub(super) fn get(host: &mut Bindings, args: &[Value]) -> Result<Value, Failure> {
    let call = Call::open(&host.scope, &host.tx, "get(table, where)", args, 2, Need::Read)?;
    let filter = call.named(|| filter::parse(call.target.table, call.args[1], Purpose::Read))?;
    let mut rows = records::list(&host.tx, call.target, &filter, None, None, 2)?;
    if rows.len() > 1 {
        return call.named(|| {
            Err(Failure::contract(
                "more than one row matches; get takes a where that names one, e.g. by the primary key; use list for several",
            ))
        });
    }
    rows.pop().map_or(Ok(Value::Null), |cells| shown(call.target, cells))
}

/// `store.list(table, options)` gives `{ records, nextCursor }`.
pub(super) fn list(host: &mut Bindings, args: &[Value]) -> Result<Value, Failure> {
    let call =
        Call::open(&host.scope, &host.tx, "list(table, { where, orderBy, limit, cursor })", args, 2, Need::Read)?;
    let Page { filter, order, limit, after } = call.named(|| page(call.target, call.args[1]))?;
    let mut rows = records::list(&host.tx, call.target, &filter, Some(&order), after.as_deref(), limit + 1)?;
    let wanted = usize::try_from(limit).unwrap_or(usize::MAX);
    let more = rows.len() > wanted;
    rows.truncate(wanted);
    let next = match rows.last().filter(|_| more) {
        Some(last) => {
            let values: Vec<Cell> = order.0.iter().map(|term| last[term.column].clone()).collect();
            Value::Text(cursor::encode(&cursor::binding(call.target, &filter, &order), &values))
        }
        None => Value::Null,
    };
    let records = rows.into_iter().map(|cells| shown(call.target, cells)).collect::<Result<_, _>>()?;
    Ok(object([("records", Value::Array(records)), ("nextCursor", next)]))
}

/// `store.count(table, where)` gives `{ count }`.
pub(super) fn count(host: &mut Bindings, args: &[Value]) -> Result<Value, Failure> {
    let call = Call::open(&host.scope, &host.tx, "count(table, where)", args, 2, Need::Read)?;
    let filter = call.named(|| filter::parse(call.target.table, call.args[1], Purpose::Read))?;
    let count = records::count(&host.tx, call.target, &filter)?;
    Ok(object([("count", Value::Int(count))]))
}

/// A call whose table is known and permitted.
struct Call<'a> {
    form: &'static str,
    target: Target<'a>,
    /// As many as the form has; the last may be `undefined`.
    args: Vec<&'a Value>,
}

impl<'a> Call<'a> {
    /// `form` is the call as it should be written, with `arity` arguments.
    fn open(
        scope: &'a Scope,
        tx: &Tx,
        form: &'static str,
        args: &'a [Value],
        arity: usize,
        need: Need,
    ) -> Result<Self, Failure> {
        let given = args.iter().rposition(|arg| *arg != Value::Undefined).map_or(0, |last| last + 1);
        if given > arity {
            return Err(Failure::contract(format!("store.{form} takes {arity} arguments; it got {given}")));
        }
        let permissions = &scope.plugin.permissions;
        let (permitted, permission) = match need {
            Need::Read => (permissions.data_read, "data:read"),
            Need::Write => (permissions.data_write, "data:write"),
        };
        if !permitted {
            return Err(Failure::contract(format!(
                "store.{form} needs the permission {permission}; add it to \"permissions\" in plugin.json"
            )));
        }
        if need == Need::Write && !scope.may_write {
            return Err(Failure::contract(format!(
                "store.{form} writes, and this action says kind: 'read'; remove that from its config"
            )));
        }
        let absent = &Value::Undefined;
        let args: Vec<&Value> = (0..arity).map(|at| args.get(at).unwrap_or(absent)).collect();
        let table = names::table(&scope.plugin.schema, &scope.plugin.id, args[0])
            .map_err(|failure| failure.of(format_args!("store.{form}")))?;
        fits(scope, tx, table)?;
        Ok(Self { form, target: Target { plugin: &scope.plugin.id, table, tenant: &scope.tenant }, args })
    }

    /// Puts the call and its table in front of what went wrong.
    fn named<R>(&self, work: impl FnOnce() -> Result<R, Failure>) -> Result<R, Failure> {
        work().map_err(|failure| {
            let name = self.form.split('(').next().unwrap_or_default();
            failure.of(format_args!("store.{name}({:?})", self.target.table.name))
        })
    }
}

/// A cell for each column: the record's, then the host's own, then the defaults.
fn record(scope: &Scope, table: &Table, value: &Value) -> Result<Vec<Cell>, Failure> {
    let mut cells: Vec<Option<Cell>> = vec![None; table.columns.len()];
    for (at, name, member) in members(table, value, "record")? {
        cells[at] = Some(encode(table, at, name, member)?);
    }
    let columns = table.columns.iter().zip(cells);
    columns
        .map(|(column, cell)| match cell {
            Some(Cell::Null) | None if column.name == "id" && column.ty == ColumnType::Text => {
                Ok(Cell::Text(scope.ids.rising(scope.now).to_string()))
            }
            Some(cell) => Ok(cell),
            None if names::is_hosts(column) => Ok(instant(scope)),
            None => match &column.default {
                // The model keeps the DEFAULT of a JSON column as JSON text.
                Some(Value::Text(json)) if column.ty == ColumnType::Json => Ok(Cell::Text(json.clone())),
                Some(default) => column::encode(column.ty, default)
                    .map_err(|why| Failure::new(Code::Schema, format!("the DEFAULT of {} {why}", column.name))),
                None => Ok(Cell::Null),
            },
        })
        .collect()
}

/// The columns that a record or patch names, with their values; `undefined` is left out.
fn members<'a>(table: &Table, value: &'a Value, what: &str) -> Result<Vec<(usize, &'a str, &'a Value)>, Failure> {
    let Value::Object(members) = value else {
        return Err(Failure::contract(format!("{what} takes an object of column values; it got {}", value.kind())));
    };
    let given = members.iter().filter(|(_, member)| *member != Value::Undefined);
    given
        .map(|(name, member)| {
            let at = names::column(table, name)?;
            if names::is_hosts(&table.columns[at]) {
                return Err(Failure::contract(format!("{name} is set by the host; leave it out of the {what}")));
            }
            Ok((at, name.as_str(), member))
        })
        .collect()
}

fn encode(table: &Table, at: usize, name: &str, value: &Value) -> Result<Cell, Failure> {
    column::encode(table.columns[at].ty, value).map_err(|why| Failure::contract(format!("{name} {why}")))
}

fn instant(scope: &Scope) -> Cell {
    time::iso(scope.now).map_or(Cell::Null, Cell::Text)
}

/// The columns of `uniqueBy`, which the record must hold and a plain unique index must cover (G5).
fn unique_by(dialect: Dialect, target: Target<'_>, value: &Value, record: &Value) -> Result<Vec<usize>, Failure> {
    let table = target.table;
    let Value::Array(items) = value else {
        return Err(Failure::contract(format!("uniqueBy takes an array of column names; it got {}", value.kind())));
    };
    let mut unique = Vec::with_capacity(items.len());
    for item in items {
        let Some(name) = item.as_text() else {
            return Err(Failure::contract(format!("uniqueBy takes column names, strings; it got {}", item.kind())));
        };
        let at = names::column(table, name)?;
        if unique.contains(&at) {
            return Err(Failure::contract(format!("uniqueBy names {name} twice; once is enough")));
        }
        if names::is_hosts(&table.columns[at]) {
            return Err(Failure::contract(format!("{name} is set by the host, so it cannot be in uniqueBy")));
        }
        if record.get(name).is_none_or(|value| *value == Value::Null) {
            return Err(Failure::contract(format!(
                "{name} is in uniqueBy, so the record must hold it, and not as null: two rows without it would not count \
                 as the same"
            )));
        }
        unique.push(at);
    }
    if unique.is_empty() {
        return Err(Failure::contract("uniqueBy is empty; name the columns that make a row the same, e.g. ['id']"));
    }
    let physical: Vec<&str> = unique.iter().map(|at| table.columns[*at].name.as_str()).collect();
    if table.has_plain_unique(&physical) {
        return Ok(unique);
    }
    Err(Failure::new(
        Code::Schema,
        format!(
            "{} has no plain UNIQUE index on exactly ({}); add to schema.sql: {} and \
             run `oncehost schema apply {}`, which then does: {}",
            table.name,
            script_names(table, &unique),
            missing_unique_ddl(table, &physical),
            target.plugin,
            dialect.create_index(table, &missing_unique(table, &physical))
        ),
    ))
}

/// What an update does to each column; `updatedAt` is set where there is one.
fn patch(scope: &Scope, table: &Table, value: &Value) -> Result<Vec<Set>, Failure> {
    let mut sets = Vec::new();
    for (at, name, member) in members(table, value, "patch")? {
        let numeric = matches!(table.columns[at].ty, ColumnType::Integer | ColumnType::Real);
        sets.push(match (numeric, member) {
            (true, Value::Object(operation)) => match operation.as_slice() {
                [(inc, by)] if inc == "inc" && *by != Value::Null => Set::Add(at, encode(table, at, name, by)?),
                _ => {
                    return Err(Failure::contract(format!(
                        "{name} takes a number, or {{ inc: n }} and nothing beside it"
                    )));
                }
            },
            _ => Set::Put(at, encode(table, at, name, member)?),
        });
    }
    if sets.is_empty() {
        return Err(Failure::contract("the patch sets nothing; name at least one column with a value"));
    }
    if let Some(at) = table.columns.iter().position(|column| column.name == "updated_at") {
        sets.push(Set::Put(at, instant(scope)));
    }
    Ok(sets)
}

struct Page {
    filter: Filter,
    order: order::Order,
    limit: i64,
    after: Option<Vec<Cell>>,
}

fn page(target: Target<'_>, options: &Value) -> Result<Page, Failure> {
    const OPTIONS: [&str; 4] = ["where", "orderBy", "limit", "cursor"];
    let table = target.table;
    let empty = Value::Object(Vec::new());
    let options = if *options == Value::Undefined { &empty } else { options };
    let Value::Object(members) = options else {
        return Err(Failure::contract(format!(
            "the second argument is {{ where, orderBy, limit, cursor }}, each of them optional; it got {}",
            options.kind()
        )));
    };
    if let Some((unknown, _)) = members.iter().find(|(name, _)| !OPTIONS.contains(&name.as_str())) {
        let hint = names::suggestion(unknown, &OPTIONS);
        return Err(Failure::contract(format!("{unknown:?} is no option{hint}; there are {}", OPTIONS.join(", "))));
    }
    let filter = filter::parse(table, options.get("where").unwrap_or(&empty), Purpose::Read)?;
    let order = order::parse(table, options.get("orderBy"))?;
    let limit = match options.get("limit") {
        None => LIMIT,
        Some(Value::Int(limit)) if (1..=MAX_LIMIT).contains(limit) => *limit,
        Some(other) => {
            let came = column::came(other);
            return Err(Failure::contract(format!("limit is a whole number from 1 to {MAX_LIMIT}; it got {came}")));
        }
    };
    let after = match options.get("cursor") {
        None => None,
        Some(Value::Text(text)) => {
            let binding = cursor::binding(target, &filter, &order);
            Some(cursor::decode(text, &binding, table, &order)?)
        }
        Some(other) => {
            return Err(Failure::contract(format!(
                "cursor takes the nextCursor of the page before, a string; it got {}; leave it out for the first page",
                other.kind()
            )));
        }
    };
    Ok(Page { filter, order, limit, after })
}

/// A row as a script sees it: the names that scripts use, in the table's order.
fn shown(target: Target<'_>, cells: Vec<Cell>) -> Result<Value, Failure> {
    let members = target.table.columns.iter().zip(cells).map(|(column, cell)| {
        let value = column::decode(column.ty, cell).map_err(|found| {
            Failure::new(
                Code::Schema,
                format!(
                    "{}.{} is {} and holds {found}: the row was changed by hand; `oncehost schema status {}` shows whether the table was too",
                    target.table.name,
                    column.name,
                    column.ty.name(),
                    target.plugin
                ),
            )
        })?;
        Ok((column.script_name().to_owned(), value))
    });
    Ok(Value::Object(members.collect::<Result<_, Failure>>()?))
}

fn object<const N: usize>(members: [(&str, Value); N]) -> Value {
    Value::Object(members.map(|(name, value)| (name.to_owned(), value)).into())
}

fn number(count: usize) -> Value {
    Value::Int(i64::try_from(count).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests;
