//! DDL from the model, for Postgres. Names stand without a schema: the transaction's search path says where.
//!
//! Postgres writes conditions down in its own words, so each CHECK carries the model's as its comment; a condition
//! without such a comment was made by hand. A JSON column is known by the name of the check that keeps it JSON.

use sha2::{Digest, Sha256};

use super::ddl::{key_columns, literal, quote, quoted, text_literal};
use super::plan::Step;
use super::rename::rename_in;
use super::rows::{Conversion, EXACT};
use super::{Check, Column, ColumnType, HOST_PREFIX, Index, Schema, TENANT, Table, index_name};
use crate::codec::Value;

/// How the check of a JSON column is called, before the column's name: together at most 63 bytes.
pub(super) const JSON_CHECK: &str = "_oncehost_json_";

/// How a check without a name of its own is called, before a digest of it.
pub(super) const CHECK: &str = "_oncehost_check_";

pub(super) fn storage(ty: ColumnType) -> &'static str {
    match ty {
        ColumnType::Integer => "BIGINT",
        ColumnType::Real => "DOUBLE PRECISION",
        ColumnType::Boolean => "BOOLEAN",
        ColumnType::Text | ColumnType::Json => "TEXT COLLATE \"C\"",
        ColumnType::Blob => "BYTEA",
        ColumnType::Timestamp => "TIMESTAMPTZ(3)",
    }
}

/// A constant in the form in which it is stored, or NULL.
pub(super) fn constant(ty: ColumnType, value: Option<&Value>) -> String {
    let text = match value {
        Some(Value::Blob(bytes)) => {
            let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("'\\x{digits}'")
        }
        Some(value) => literal(value),
        None => "NULL".to_owned(),
    };
    format!("CAST({text} AS {})", storage(ty).split(" COLLATE").next().unwrap_or_default())
}

fn column(column: &Column) -> String {
    let mut sql = format!("{} {}", quote(&column.name), storage(column.ty));
    if column.not_null {
        sql.push_str(" NOT NULL");
    }
    if column.default.is_some() {
        sql = format!("{sql} DEFAULT {}", constant(column.ty, column.default.as_ref()));
    }
    if column.ty == ColumnType::Json {
        let (name, check) = (quote(&column.name), quote(&format!("{JSON_CHECK}{}", column.name)));
        // What is no JSON is an error of the cast, and so never gets as far as the comparison.
        sql = format!("{sql} CONSTRAINT {check} CHECK ({name} IS NULL OR CAST({name} AS JSON) IS NOT NULL)");
    }
    sql
}

/// How a check is called in the database.
pub fn check_name(check: &Check) -> String {
    check.name.clone().unwrap_or_else(|| named(&check.sql))
}

fn named(sql: &str) -> String {
    let digest: [u8; 32] = Sha256::digest(sql.as_bytes()).into();
    let digits: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("{CHECK}{digits}")
}

pub(super) fn create_table(table: &Table, name: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    if !table.shared {
        parts.push(format!("{} TEXT COLLATE \"C\" NOT NULL", quote(TENANT)));
    }
    parts.extend(table.columns.iter().map(column));
    parts.push(format!("PRIMARY KEY ({})", quoted(&key_columns(table, &table.primary_key))));
    for check in &table.checks {
        parts.push(format!("CONSTRAINT {} CHECK ({})", quote(&check_name(check)), check.sql));
    }
    let comments = table.checks.iter().map(|check| comment(name, check));
    let create = format!("CREATE TABLE {} (\n  {}\n)", quote(name), parts.join(",\n  "));
    std::iter::once(create).chain(comments).collect()
}

fn comment(table: &str, check: &Check) -> String {
    let name = quote(&check_name(check));
    format!("COMMENT ON CONSTRAINT {name} ON {} IS {}", quote(table), text_literal(&check.sql))
}

pub(super) fn add_column(table: &Table, added: &Column) -> String {
    format!("ALTER TABLE {} ADD COLUMN {}", quote(&table.name), column(added))
}

pub(super) fn create_index(table: &Table, index: &Index) -> String {
    let unique = if index.unique { "UNIQUE " } else { "" };
    let tenant = (!table.shared).then(|| quote(TENANT));
    let own = index.columns.iter().map(|name| {
        // As rows are ordered, so that an index serves that order both ways.
        let nulls = if table.column(name).is_some_and(|column| column.not_null) { "" } else { " NULLS FIRST" };
        format!("{}{nulls}", quote(name))
    });
    let columns: Vec<String> = tenant.into_iter().chain(own).collect();
    format!("CREATE {unique}INDEX {} ON {} ({})", quote(&index.name), quote(&table.name), columns.join(", "))
}

/// Foreign keys once all tables are there: of the tables in `made`, and of others that refer to one of these, whose
/// keys went with the table that was there before.
pub(super) fn late_keys(wanted: &Schema, made: &[String]) -> Vec<Step> {
    let mut steps = Vec::new();
    for table in wanted.tables.values() {
        let all = made.contains(&table.name);
        for key in table.foreign_keys.iter().filter(|key| all || made.contains(&key.table)) {
            let tenant = (!key.shared).then(|| TENANT.to_owned());
            let side = |columns: &[String]| quoted(tenant.iter().chain(columns));
            let columns: Vec<&str> = key.columns.iter().map(String::as_str).collect();
            let name = index_name(&table.name, &[columns.as_slice(), &["fkey"]].concat());
            let (here, there) = (side(&key.columns), side(&key.references));
            let sql = format!(
                "ALTER TABLE {} ADD CONSTRAINT {} FOREIGN KEY ({here}) REFERENCES {} ({there})",
                quote(&table.name),
                quote(&name),
                quote(&key.table)
            );
            steps.push(Step::new(format!("foreign key of table {} to {}", table.name, key.table), vec![sql]));
        }
    }
    steps
}

/// A new name for the check of a JSON column, and new comments for the checks that name the column. `table` is as it
/// is after the renaming.
pub(super) fn after_rename(table: &Table, was: &str, now: &str) -> Vec<String> {
    let mut sql = Vec::new();
    if table.column(now).is_some_and(|column| column.ty == ColumnType::Json) {
        let (was, now) = (quote(&format!("{JSON_CHECK}{was}")), quote(&format!("{JSON_CHECK}{now}")));
        sql.push(format!("ALTER TABLE {} RENAME CONSTRAINT {was} TO {now}", quote(&table.name)));
    }
    for check in table.checks.iter().filter(|check| check.sql.contains(&quote(now))) {
        if check.name.is_none() {
            let before = named(&rename_in(&check.sql, now, was));
            let (before, after) = (quote(&before), quote(&check_name(check)));
            sql.push(format!("ALTER TABLE {} RENAME CONSTRAINT {before} TO {after}", quote(&table.name)));
        }
        sql.push(comment(&table.name, check));
    }
    sql
}

/// The shortest text that means the REAL `old`, as scripts write it; whole numbers of 64 bits with all their digits.
/// Postgres's own text is not the shortest where that lies halfway to the next number: 1e23 is the first of few.
fn real_text(old: &str) -> String {
    let short = format!("CAST({old} AS NUMERIC)");
    let is_short = format!("CAST({short} AS DOUBLE PRECISION) = {old}");
    format!(
        "CASE WHEN {old} = trunc({old}) AND abs({old}) < 9e18 THEN CAST(CAST({old} AS BIGINT) AS TEXT) \
         WHEN abs({old}) >= 1e-6 AND abs({old}) < 1e21 THEN CAST(CASE WHEN abs({old}) >= 9e18 AND {is_short} \
         THEN {short} ELSE CAST(CAST({old} AS TEXT) AS NUMERIC) END AS TEXT) \
         WHEN abs({old}) >= 1e21 AND abs({old}) < 1e24 AND {is_short} THEN \
         regexp_replace(btrim(to_char({short}, '9.99999999999999EEEE')), '\\.?0*e', 'e') \
         ELSE regexp_replace(CAST({old} AS TEXT), 'e([+-])0', 'e\\1') END"
    )
}

/// The digits of a number as text that say more than its size.
fn digits(text: &str) -> String {
    format!("rtrim(ltrim(replace(split_part(lower({text}), 'e', 1), '.', ''), '-0'), '0')")
}

/// See [`super::Dialect::conversion`].
pub(super) fn conversion(from: ColumnType, to: ColumnType, old: &str) -> Option<Conversion> {
    use ColumnType::{Blob, Boolean, Integer, Json, Real, Text, Timestamp};
    let value = |value: String, impossible: Option<String>| Some(Conversion { value, impossible });
    match (from, to) {
        (Integer, Real) => value(
            format!("CAST({old} AS DOUBLE PRECISION)"),
            Some(format!("{old} NOT BETWEEN -9007199254740992 AND 9007199254740992")),
        ),
        (Real, Integer) => value(
            format!("CAST({old} AS BIGINT)"),
            Some(format!("{old} <> trunc({old}) OR {old} NOT BETWEEN -9e18 AND 9e18")),
        ),
        (Integer, Text) => value(format!("CAST({old} AS TEXT)"), None),
        (Real, Text) => value(real_text(old), None),
        (Text, Integer) => value(
            format!("CAST({old} AS BIGINT)"),
            Some(format!(
                "CASE WHEN {old} ~ '^(0|-?[1-9][0-9]{{0,18}})$' THEN CAST({old} AS NUMERIC) NOT BETWEEN \
                 -9223372036854775808 AND 9223372036854775807 ELSE {old} IS NOT NULL END"
            )),
        ),
        (Text, Real) => {
            let real = format!("CAST({old} AS DOUBLE PRECISION)");
            let said = digits(old);
            let few = format!("length({said}) <= {EXACT} AND abs({real}) BETWEEN 1e-290 AND 1e290");
            // No cast is out of range: that of a NUMERIC is not, and says which others are not.
            let number = "^-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][+-]?[0-9]{1,3})?$";
            let same = format!(
                "CASE WHEN {old} !~ '{number}' OR length({old}) > 100 THEN FALSE WHEN {said} = '' THEN TRUE \
                 WHEN abs(CAST({old} AS NUMERIC)) NOT BETWEEN 4.9406564584124654e-324 AND 1.7976931348623157e308 \
                 THEN FALSE ELSE {few} OR {said} = {} END",
                digits(&format!("({})", real_text(&real)))
            );
            value(real, Some(format!("{old} IS NOT NULL AND NOT ({same})")))
        }
        (Boolean, Integer) => value(format!("CAST(CAST({old} AS INTEGER) AS BIGINT)"), None),
        (Integer, Boolean) => value(format!("({old} = 1)"), Some(format!("{old} NOT IN (0, 1)"))),
        (Boolean, Text) => value(format!("CASE {old} WHEN TRUE THEN 'true' WHEN FALSE THEN 'false' END"), None),
        (Json, Text) => value(old.to_owned(), None),
        (Timestamp, Text) => {
            value(format!("to_char({old} AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"')"), None)
        }
        (Text, Timestamp) => value(
            format!("CAST({old} AS TIMESTAMPTZ(3))"),
            Some(format!(
                "CASE WHEN {old} ~ '^[0-9]{{4}}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:\
                 [0-5][0-9]\\.[0-9]{{3}}Z$' AND {old} >= '0001' THEN CAST(substr({old}, 9, 2) AS INTEGER) > \
                 extract(DAY FROM make_date(CAST(substr({old}, 1, 4) AS INTEGER), CAST(substr({old}, 6, 2) AS INTEGER), \
                 1) + INTERVAL '1 month' - INTERVAL '1 day') ELSE {old} IS NOT NULL END"
            )),
        ),
        (Text, Blob) => value(format!("convert_to({old}, 'UTF8')"), None),
        _ => None,
    }
}

/// Whether a name is the host's own and belongs to no plugin's table.
pub(super) fn is_hosts(name: &str) -> bool {
    name.starts_with(HOST_PREFIX)
}
