//! What is really in a SQLite database, in the terms of the model.

use std::collections::BTreeMap;

use rusqlite::{Connection, Params, Row};

use super::{Column, ColumnType, ForeignKey, HOST_PREFIX, Index, Schema, SchemaError, TENANT, Table, stored};

/// The tables of a database, and what in them is not of the host's making.
#[derive(Clone, Debug, Default)]
pub struct Live {
    /// As far as the model can say it.
    pub schema: Schema,
    /// By table: what makes it differ from any table that the host would make.
    pub odd_tables: BTreeMap<String, Vec<String>>,
    /// By index: likewise.
    pub odd_indexes: BTreeMap<String, String>,
    /// Triggers and views: kind and name.
    pub others: Vec<(String, String)>,
}

pub(super) fn rows<T>(
    conn: &Connection,
    sql: &str,
    params: impl Params,
    read: impl FnMut(&Row) -> rusqlite::Result<T>,
) -> Result<Vec<T>, SchemaError> {
    Ok(conn.prepare(sql)?.query_map(params, read)?.collect::<rusqlite::Result<Vec<T>>>()?)
}

/// Reads all tables but the host's own.
///
/// # Errors
/// When the database cannot be read.
pub fn read(conn: &Connection) -> Result<Live, SchemaError> {
    let mut live = Live::default();
    let sql = "SELECT type, name, coalesce(sql, '') FROM sqlite_schema WHERE type <> 'index' ORDER BY name";
    for (kind, name, sql) in
        rows(conn, sql, [], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, row.get::<_, String>(2)?)))?
    {
        if name.starts_with("sqlite_") || name.starts_with(HOST_PREFIX) {
            continue;
        }
        if kind == "table" {
            table(conn, &name, &sql, &mut live)?;
        } else {
            live.others.push((kind, name));
        }
    }
    Ok(live)
}

/// One row of `pragma_table_xinfo`.
struct RawColumn {
    name: String,
    declared: String,
    not_null: bool,
    default: Option<String>,
    key: i64,
    hidden: bool,
}

fn raw_columns(conn: &Connection, table: &str) -> Result<Vec<RawColumn>, SchemaError> {
    let sql = "SELECT name, type, \"notnull\", dflt_value, pk, hidden FROM pragma_table_xinfo(?1) ORDER BY cid";
    rows(conn, sql, [table], |row| {
        Ok(RawColumn {
            name: row.get(0)?,
            declared: row.get::<_, String>(1)?.to_ascii_uppercase(),
            not_null: row.get(2)?,
            default: row.get(3)?,
            key: row.get(4)?,
            hidden: row.get::<_, i64>(5)? != 0,
        })
    })
}

fn table(conn: &Connection, name: &str, sql: &str, live: &mut Live) -> Result<(), SchemaError> {
    let shape = "SELECT type, strict, wr FROM pragma_table_list(?1) WHERE schema = 'main'";
    let shape = rows(conn, shape, [name], |row| Ok((row.get::<_, String>(0)?, row.get(1)?, row.get(2)?)))?;
    let Some(shape) = shape.into_iter().find(|(kind, _, _)| kind != "shadow") else {
        // It belongs to a virtual table and goes with that.
        return Ok(());
    };
    let mut odd = Vec::new();
    let raw = raw_columns(conn, name)?;
    let mut table = Table { name: name.to_owned(), ..Table::default() };
    table.shared = !raw.iter().any(|column| column.name == TENANT);
    let mut key: Vec<(i64, String)> =
        raw.iter().filter(|column| column.key > 0).map(|column| (column.key, column.name.clone())).collect();
    key.sort();
    table.primary_key = key.into_iter().map(|(_, name)| name).collect();
    if !table.shared && table.primary_key.first().is_some_and(|first| first == TENANT) {
        table.primary_key.remove(0);
    } else if !table.shared {
        odd.push(format!("its primary key does not begin with {TENANT}"));
    }
    if shape != ("table".to_owned(), true, false) {
        odd.push("it is not an ordinary STRICT table".to_owned());
    }
    for column in raw.iter().filter(|column| column.name != TENANT) {
        table.columns.push(self::column(column, &table, &mut odd));
    }
    foreign_keys(conn, &mut table, &mut odd)?;
    let defaults: BTreeMap<&str, &str> =
        raw.iter().filter_map(|column| Some((column.name.as_str(), column.default.as_deref()?))).collect();
    stored::complete(&mut table, sql, &defaults, &mut odd);
    indexes(conn, &mut table, &mut odd, live)?;
    if !odd.is_empty() {
        live.odd_tables.insert(name.to_owned(), odd);
    }
    live.schema.tables.insert(name.to_owned(), table);
    Ok(())
}

fn column(raw: &RawColumn, table: &Table, odd: &mut Vec<String>) -> Column {
    let alone = table.shared && table.primary_key == [raw.name.as_str()];
    let ty = match raw.declared.as_str() {
        "INTEGER" if !alone => ColumnType::Integer,
        "INT" if alone => ColumnType::Integer,
        "REAL" => ColumnType::Real,
        "TEXT" => ColumnType::Text,
        "BLOB" => ColumnType::Blob,
        other => {
            odd.push(format!("column {} is declared {other}", raw.name));
            affinity(other)
        }
    };
    if raw.hidden {
        odd.push(format!("column {} is generated", raw.name));
    }
    Column { name: raw.name.clone(), ty, not_null: raw.not_null, default: None, was: None, line: 0 }
}

/// What SQLite makes of a type that is not one of its own.
fn affinity(declared: &str) -> ColumnType {
    let has = |words: &[&str]| words.iter().any(|word| declared.contains(word));
    if has(&["INT"]) {
        ColumnType::Integer
    } else if has(&["CHAR", "CLOB", "TEXT"]) {
        ColumnType::Text
    } else if has(&["REAL", "FLOA", "DOUB"]) {
        ColumnType::Real
    } else {
        ColumnType::Blob
    }
}

fn foreign_keys(conn: &Connection, table: &mut Table, odd: &mut Vec<String>) -> Result<(), SchemaError> {
    let sql = "SELECT id, \"table\", \"from\", coalesce(\"to\", ''), on_update || ' ' || on_delete
               FROM pragma_foreign_key_list(?1) ORDER BY id, seq";
    let mut keys: BTreeMap<i64, ForeignKey> = BTreeMap::new();
    for (id, target, from, to, actions) in rows(conn, sql, [&table.name], |row| {
        let text = |at: usize| row.get::<_, String>(at);
        Ok((row.get::<_, i64>(0)?, text(1)?, text(2)?, text(3)?, text(4)?))
    })? {
        if actions != "NO ACTION NO ACTION" {
            odd.push(format!("its foreign key to {target} has ON UPDATE or ON DELETE"));
        }
        let key = keys.entry(id).or_insert_with(|| ForeignKey { table: target, shared: true, ..ForeignKey::default() });
        if from == TENANT && to == TENANT {
            key.shared = false;
        } else {
            key.columns.push(from);
            key.references.push(to);
        }
    }
    table.foreign_keys = keys.into_values().collect();
    Ok(())
}

/// An index as SQLite lists it: its columns (`None` for an expression or the row number) with their collations, and
/// what keeps it from being plain.
struct RawIndex {
    name: String,
    unique: bool,
    /// `c` made by CREATE INDEX, `u` by UNIQUE, `pk` by PRIMARY KEY.
    origin: String,
    columns: Vec<String>,
    odd: Option<&'static str>,
}

fn raw_indexes(conn: &Connection, table: &str) -> Result<Vec<RawIndex>, SchemaError> {
    let sql = "SELECT name, \"unique\", origin, partial FROM pragma_index_list(?1) ORDER BY name";
    let list = rows(conn, sql, [table], |row| {
        Ok((row.get::<_, String>(0)?, row.get::<_, bool>(1)?, row.get::<_, String>(2)?, row.get::<_, bool>(3)?))
    })?;
    let mut all = Vec::new();
    for (name, unique, origin, partial) in list {
        let mut index = RawIndex { name, unique, origin, columns: Vec::new(), odd: partial.then_some("it is partial") };
        let sql = "SELECT name, desc, coll FROM pragma_index_xinfo(?1) WHERE key ORDER BY seqno";
        for (column, falling, collation) in rows(conn, sql, [&index.name], |row| {
            Ok((row.get::<_, Option<String>>(0)?, row.get::<_, bool>(1)?, row.get::<_, Option<String>>(2)?))
        })? {
            match column {
                Some(column) => index.columns.push(column),
                None => index.odd = Some("it is over an expression"),
            }
            if collation.is_none_or(|name| !name.eq_ignore_ascii_case("BINARY")) {
                index.odd = index.odd.or(Some("it has a COLLATE"));
            }
            if falling {
                index.odd = index.odd.or(Some(FALLING));
            }
        }
        all.push(index);
    }
    Ok(all)
}

const FALLING: &str = "it is descending";

fn indexes(conn: &Connection, table: &mut Table, odd: &mut Vec<String>, live: &mut Live) -> Result<(), SchemaError> {
    for mut raw in raw_indexes(conn, &table.name)? {
        if raw.origin == "pk" {
            continue;
        }
        if raw.origin == "u" {
            odd.push("it has a UNIQUE constraint, where the host makes indexes".to_owned());
            continue;
        }
        if !table.shared && raw.columns.first().is_some_and(|first| first == TENANT) {
            raw.columns.remove(0);
        } else if !table.shared {
            raw.odd = raw.odd.or(Some("it does not begin with tenant_id"));
        }
        if let Some(odd) = raw.odd {
            live.odd_indexes.insert(raw.name.clone(), odd.to_owned());
        }
        table.indexes.push(Index { name: raw.name, columns: raw.columns, unique: raw.unique, line: 0 });
    }
    Ok(())
}
