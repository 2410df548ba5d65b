//! `where`: from a script's object to a typed tree.

use super::column::{self, Cell};
use super::names;
use crate::codec::Value;
use crate::failure::Failure;
use crate::schema::{ColumnType, Table};

/// Levels of `or` within `or`.
const MAX_DEPTH: usize = 16;
/// Tests and `or` branches in one `where`.
const MAX_TESTS: usize = 256;
/// Values in one `in` or `notIn`, and in all of them together.
const MAX_LIST: usize = 1_000;
const MAX_VALUES: usize = 4_000;

/// A condition on the rows of one table.
#[derive(Clone, Debug, PartialEq)]
pub enum Filter {
    /// All hold; an empty one always does.
    All(Vec<Filter>),
    /// At least one holds; an empty one never does.
    Any(Vec<Filter>),
    /// One column, by its place in the table.
    Column(usize, Test),
}

impl Filter {
    /// Whether it asks for one value of the primary key, so that at most one row passes.
    pub fn names_one(&self, table: &Table) -> bool {
        let Filter::All(all) = self else { return false };
        let is_given = |name: &String| {
            all.iter().any(|part| match part {
                Filter::Column(at, Test::Compare(Compare::Eq, _)) => table.columns[*at].name == *name,
                Filter::Column(..) | Filter::All(_) | Filter::Any(_) => false,
            })
        };
        table.primary_key.iter().all(is_given)
    }
}

/// A test of one column. NULL passes none but `Ne`, `NotIn` and `IsNull(true)`.
#[derive(Clone, Debug, PartialEq)]
pub enum Test {
    Compare(Compare, Cell),
    In(Vec<Cell>),
    NotIn(Vec<Cell>),
    IsNull(bool),
    StartsWith(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compare {
    Eq,
    Ne,
    Gt,
    Gte,
    Lt,
    Lte,
}

/// What the condition is for: one that changes rows must not match everything by accident.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Read,
    Change,
}

const OPERATORS: [&str; 10] = ["eq", "ne", "gt", "gte", "lt", "lte", "in", "notIn", "isNull", "startsWith"];
/// What other libraries call them.
const ALIASES: [(&str, &str); 12] = [
    ("equals", "eq"),
    ("is", "eq"),
    ("not", "ne"),
    ("neq", "ne"),
    ("ge", "gte"),
    ("le", "lte"),
    ("before", "lt"),
    ("after", "gt"),
    ("nin", "notIn"),
    ("like", "startsWith"),
    ("contains", "startsWith"),
    ("null", "isNull"),
];

/// Reads a `where`.
///
/// # Errors
/// `CONTRACT`, with the place (`where.or[1].status`), what is wrong, and the right form.
pub fn parse(table: &Table, value: &Value, purpose: Purpose) -> Result<Filter, Failure> {
    let mut parser = Parser { table, purpose, tests: 0, values: 0 };
    let filter = parser.object(value, "where", 0)?;
    if purpose == Purpose::Change && filter == Filter::All(Vec::new()) {
        return Err(Failure::contract("an empty where would match every row; say which ones, e.g. { id: { eq: id } }"));
    }
    if purpose == Purpose::Change && always(table, &filter) {
        return Err(Failure::contract(
            "this where matches every row, whatever stands in it (a column that is NOT NULL always passes isNull: false); \
             say which ones, e.g. { id: { eq: id } }",
        ));
    }
    Ok(filter)
}

/// Whether every row that the table can hold passes.
fn always(table: &Table, filter: &Filter) -> bool {
    match filter {
        Filter::All(all) => all.iter().all(|part| always(table, part)),
        Filter::Any(any) => any.iter().any(|part| always(table, part)) || both_null_tests(any),
        Filter::Column(at, test) => table.columns[*at].not_null && passes_all(test),
    }
}

/// Whether a test passes for every value but NULL: no value lies outside what it takes.
fn passes_all(test: &Test) -> bool {
    match test {
        Test::IsNull(truth) => !truth,
        Test::Compare(Compare::Gte, cell) => match cell {
            Cell::Bool(truth) => !truth,
            Cell::Integer(number) => *number == i64::MIN,
            Cell::Text(text) => text.is_empty(),
            Cell::Blob(bytes) => bytes.is_empty(),
            Cell::Null | Cell::Real(_) => false,
        },
        Test::Compare(Compare::Lte, cell) => matches!(cell, Cell::Bool(true) | Cell::Integer(i64::MAX)),
        Test::In(cells) => cells.contains(&Cell::Bool(true)) && cells.contains(&Cell::Bool(false)),
        Test::StartsWith(prefix) => prefix.is_empty(),
        Test::Compare(..) | Test::NotIn(_) => false,
    }
}

/// Whether one branch asks that a column is NULL and another that it is not.
fn both_null_tests(any: &[Filter]) -> bool {
    let alone = |branch: &Filter| match branch {
        Filter::All(tests) => match tests.as_slice() {
            [Filter::Column(at, Test::IsNull(truth))] => Some((*at, *truth)),
            _ => None,
        },
        Filter::Any(_) | Filter::Column(..) => None,
    };
    let tests: Vec<(usize, bool)> = any.iter().filter_map(alone).collect();
    tests.iter().any(|(at, truth)| tests.contains(&(*at, !truth)))
}

struct Parser<'a> {
    table: &'a Table,
    purpose: Purpose,
    tests: usize,
    values: usize,
}

impl Parser<'_> {
    fn object(&mut self, value: &Value, path: &str, depth: usize) -> Result<Filter, Failure> {
        if depth > MAX_DEPTH {
            return refuse(path, "or is nested more than 16 levels deep");
        }
        let Value::Object(members) = value else {
            return refuse(path, &format!("takes an object such as {{ id: {{ eq: id }} }}; it got {}", value.kind()));
        };
        let mut all = Vec::with_capacity(members.len());
        for (name, member) in members {
            let path = format!("{path}.{name}");
            if *member == Value::Undefined {
                return refuse(&path, "is undefined; leave the member out, or use isNull to look for NULL");
            }
            // A column may be called `or`: its tests are an object.
            if let ("or", Value::Array(branches)) = (name.as_str(), member) {
                all.push(self.branches(branches, &path, depth)?);
            } else {
                self.column(name, member, &path, &mut all)?;
            }
        }
        Ok(Filter::All(all))
    }

    fn branches(&mut self, branches: &[Value], path: &str, depth: usize) -> Result<Filter, Failure> {
        if branches.is_empty() && self.purpose == Purpose::Change {
            return refuse(path, "is empty, which could be taken for every row; give it at least one branch");
        }
        let mut any = Vec::with_capacity(branches.len());
        for (at, branch) in branches.iter().enumerate() {
            let path = format!("{path}[{at}]");
            self.count(&path)?;
            let filter = self.object(branch, &path, depth + 1)?;
            if self.purpose == Purpose::Change && filter == Filter::All(Vec::new()) {
                return refuse(&path, "is an empty branch, which would match every row; say which ones");
            }
            any.push(filter);
        }
        Ok(Filter::Any(any))
    }

    fn column(&mut self, name: &str, tests: &Value, path: &str, all: &mut Vec<Filter>) -> Result<(), Failure> {
        let column = names::column(self.table, name).map_err(|failure| match name {
            "or" => Failure::contract(format!("{path} takes an array of conditions: or: [{{ … }}, {{ … }}]")),
            "and" | "AND" => {
                Failure::contract(format!("{path}: the members of a where are ANDed already; leave `and` out"))
            }
            "OR" => Failure::contract(format!("{path} is written in lower case: or: [{{ … }}, {{ … }}]")),
            _ => failure,
        })?;
        let Value::Object(operators) = tests else {
            return refuse(path, &bare(name, tests));
        };
        if operators.is_empty() && self.purpose == Purpose::Change {
            return refuse(path, "has no operator, which would match every row; write e.g. { eq: value }");
        }
        for (operator, operand) in operators {
            let path = format!("{path}.{operator}");
            self.count(&path)?;
            if has_undefined(operand) {
                return refuse(&path, "is or holds undefined; leave the test out, or use isNull to look for NULL");
            }
            all.push(Filter::Column(column, self.test(column, operator, operand, &path)?));
        }
        Ok(())
    }

    fn test(&mut self, column: usize, operator: &str, operand: &Value, path: &str) -> Result<Test, Failure> {
        let column = &self.table.columns[column];
        let compare = match operator {
            "eq" => Compare::Eq,
            "ne" => Compare::Ne,
            "gt" => Compare::Gt,
            "gte" => Compare::Gte,
            "lt" => Compare::Lt,
            "lte" => Compare::Lte,
            "in" | "notIn" => {
                let cells = self.list(column.ty, operator, operand, path)?;
                return Ok(if operator == "in" { Test::In(cells) } else { Test::NotIn(cells) });
            }
            "isNull" => {
                let Value::Bool(truth) = operand else {
                    return refuse(path, &format!("takes true or false; it got {}", operand.kind()));
                };
                return Ok(Test::IsNull(*truth));
            }
            "startsWith" => return self.starts_with(column.ty, operand, path),
            unknown => return refuse(path, &unknown_operator(unknown)),
        };
        if column.ty == ColumnType::Json && !matches!(compare, Compare::Eq | Compare::Ne) {
            return refuse(path, "compares a JSON column, which has no order; use eq, ne, in, notIn or isNull");
        }
        Ok(Test::Compare(compare, cell(column.ty, operand, path)?))
    }

    fn list(&mut self, ty: ColumnType, operator: &str, operand: &Value, path: &str) -> Result<Vec<Cell>, Failure> {
        let Value::Array(items) = operand else {
            return refuse(path, &format!("takes an array of values; it got {}", operand.kind()));
        };
        if operator == "notIn" && items.is_empty() && self.purpose == Purpose::Change {
            return refuse(path, "is empty, which would match every row; leave it out or name values");
        }
        self.values += items.len();
        if items.len() > MAX_LIST || self.values > MAX_VALUES {
            return refuse(
                path,
                "holds too many values: 1,000 in one list and 4,000 in one where are taken; ask in parts",
            );
        }
        items.iter().enumerate().map(|(at, item)| cell(ty, item, &format!("{path}[{at}]"))).collect()
    }

    fn starts_with(&self, ty: ColumnType, operand: &Value, path: &str) -> Result<Test, Failure> {
        if ty != ColumnType::Text {
            return refuse(path, &format!("works on TEXT columns; this one is {}", ty.name()));
        }
        let Cell::Text(prefix) = cell(ty, operand, path)? else {
            return refuse(path, "takes a string");
        };
        if prefix.is_empty() && self.purpose == Purpose::Change {
            return refuse(path, "is empty, which would match every row; leave it out or give a prefix");
        }
        Ok(Test::StartsWith(prefix))
    }

    fn count(&mut self, path: &str) -> Result<(), Failure> {
        self.tests += 1;
        if self.tests > MAX_TESTS {
            return refuse(path, "is one test too many: a where may have 256; use in: […] or ask in parts");
        }
        Ok(())
    }
}

fn cell(ty: ColumnType, operand: &Value, path: &str) -> Result<Cell, Failure> {
    if *operand == Value::Null {
        return refuse(path, "is null, which equals nothing; use { isNull: true } or { isNull: false }");
    }
    column::encode(ty, operand).or_else(|why| refuse(path, &why))
}

fn refuse<T>(path: &str, why: &str) -> Result<T, Failure> {
    Err(Failure::contract(format!("{path} {why}")))
}

fn bare(name: &str, value: &Value) -> String {
    let form = if *value == Value::Null {
        "isNull: true"
    } else if matches!(value, Value::Array(_)) {
        "in: […]"
    } else {
        "eq: value"
    };
    format!("is {}, where an operator is wanted; write {{ {name}: {{ {form} }} }}", value.kind())
}

fn unknown_operator(came: &str) -> String {
    let plain = came.trim_start_matches('$').to_lowercase();
    let alias = ALIASES.iter().find(|(alias, _)| *alias == plain);
    let hint = match alias {
        Some((_, operator)) => format!("; did you mean {operator:?}?"),
        None => names::suggestion(came, &OPERATORS),
    };
    format!("is no operator{hint}; there are {}", OPERATORS.join(", "))
}

fn has_undefined(value: &Value) -> bool {
    match value {
        Value::Undefined => true,
        Value::Array(items) => items.iter().any(has_undefined),
        Value::Object(members) => members.iter().any(|(_, member)| has_undefined(member)),
        Value::Null
        | Value::Bool(_)
        | Value::Int(_)
        | Value::BigInt(_)
        | Value::Huge(_)
        | Value::Real(_)
        | Value::Text(_)
        | Value::Blob(_)
        | Value::Date(_) => false,
    }
}
