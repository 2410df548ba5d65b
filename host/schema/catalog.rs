//! What is really in a Postgres schema (the transaction's current one), in the terms of the model.

use std::collections::BTreeMap;

use super::database::{Database, integer, text};
use super::inspect::Live;
use super::postgres::{CHECK, JSON_CHECK, is_hosts};
use super::{Check, Column, ColumnType, ForeignKey, Index, SchemaError, TENANT, Table};
use crate::codec::{SAFE, Value};

/// Reads all tables but the host's own.
///
/// # Errors
/// When the database cannot be read.
pub fn read(db: &dyn Database) -> Result<Live, SchemaError> {
    let mut live = Live::default();
    let relations = "SELECT c.relname, c.relkind::text, c.relispartition OR c.relrowsecurity OR c.relhasrules
                     FROM pg_class c WHERE c.relnamespace = current_schema()::regnamespace
                       AND c.relkind IN ('r', 'p', 'v', 'm', 'f') ORDER BY c.relname";
    for row in db.rows(relations)? {
        let (name, kind) = (text(&row[0]), text(&row[1]));
        if is_hosts(&name) {
            continue;
        }
        match kind.as_str() {
            "v" => live.others.push(("view".to_owned(), name)),
            "m" => live.others.push(("materialized view".to_owned(), name)),
            "f" => live.others.push(("foreign table".to_owned(), name)),
            _ => {
                if kind == "p" || row[2] == Value::Bool(true) {
                    odd(&mut live, &name, "it is partitioned, or has rules or row security".to_owned());
                }
                live.schema.tables.insert(name.clone(), Table { name, shared: true, ..Table::default() });
            }
        }
    }
    columns(db, &mut live)?;
    defaults(db, &mut live)?;
    constraints(db, &mut live)?;
    indexes(db, &mut live)?;
    triggers(db, &mut live)?;
    Ok(live)
}

fn odd(live: &mut Live, table: &str, what: String) {
    live.odd_tables.entry(table.to_owned()).or_default().push(what);
}

fn columns(db: &dyn Database, live: &mut Live) -> Result<(), SchemaError> {
    let sql = "SELECT c.relname, a.attname, format_type(a.atttypid, a.atttypmod), coalesce(l.collname, ''),
                      a.attnotnull, a.attgenerated <> '' OR a.attidentity <> ''
               FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
                 LEFT JOIN pg_collation l ON l.oid = a.attcollation
               WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p')
                 AND a.attnum > 0 AND NOT a.attisdropped ORDER BY c.relname, a.attnum";
    for row in db.rows(sql)? {
        let (table, name, declared, collation) = (text(&row[0]), text(&row[1]), text(&row[2]), text(&row[3]));
        let ty = match declared.as_str() {
            "bigint" => ColumnType::Integer,
            "double precision" => ColumnType::Real,
            "boolean" => ColumnType::Boolean,
            "text" => ColumnType::Text,
            "bytea" => ColumnType::Blob,
            "timestamp(3) with time zone" => ColumnType::Timestamp,
            _ => {
                if live.schema.tables.contains_key(&table) {
                    odd(live, &table, format!("column {name} is declared {declared}"));
                }
                alike(&declared)
            }
        };
        if !live.schema.tables.contains_key(&table) {
            continue;
        }
        if declared == "text" && collation != "C" {
            odd(live, &table, format!("column {name} has the collation {collation}"));
        }
        if row[5] == Value::Bool(true) {
            odd(live, &table, format!("column {name} is generated"));
        }
        let Some(table) = live.schema.tables.get_mut(&table) else { continue };
        if name == TENANT {
            table.shared = false;
        } else {
            let not_null = row[4] == Value::Bool(true);
            table.columns.push(Column { name, ty, not_null, default: None, was: None, line: 0 });
        }
    }
    Ok(())
}

/// The type of the model that comes nearest to one that the host would not have written.
fn alike(declared: &str) -> ColumnType {
    match declared {
        "integer" | "smallint" => ColumnType::Integer,
        "real" | "numeric" => ColumnType::Real,
        other if other.starts_with("timestamp") => ColumnType::Timestamp,
        other if other.starts_with("json") => ColumnType::Json,
        _ => ColumnType::Text,
    }
}

/// A default counts as a constant when nothing is called in it.
fn is_constant(expression: &str) -> bool {
    let outside: String = expression.split('\'').step_by(2).collect();
    let outside = outside.replace("timestamp(3)", "timestamp");
    let calls = outside.char_indices().any(|(at, one)| {
        one == '(' && outside[..at].chars().next_back().is_some_and(|before| before.is_alphanumeric() || before == '_')
    });
    !calls && !outside.to_ascii_uppercase().contains("CURRENT_")
}

fn defaults(db: &dyn Database, live: &mut Live) -> Result<(), SchemaError> {
    let sql = "SELECT c.relname, a.attname, pg_get_expr(d.adbin, d.adrelid)
               FROM pg_attrdef d JOIN pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum
                 JOIN pg_class c ON c.oid = d.adrelid
               WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p') ORDER BY 1, 2";
    for row in db.rows(sql)? {
        let (name, column, expression) = (text(&row[0]), text(&row[1]), text(&row[2]));
        if !live.schema.tables.contains_key(&name) {
            continue;
        }
        if !is_constant(&expression) {
            odd(live, &name, format!("column {column} has DEFAULT {expression}"));
            continue;
        }
        let value = db.rows(&format!("SELECT {expression}"))?.into_iter().flatten().next().unwrap_or(Value::Null);
        let value = if let Value::Int(number) = value
            && !(-SAFE..=SAFE).contains(&number)
        {
            Some(Value::BigInt(number))
        } else {
            Some(value).filter(|value| *value != Value::Null)
        };
        let table = live.schema.tables.get_mut(&name);
        if let Some(own) = table.and_then(|table| table.columns.iter_mut().find(|own| own.name == column)) {
            own.default = value;
        }
    }
    Ok(())
}

/// Splits what `array_to_string` joined.
fn list(value: &Value) -> Vec<String> {
    text(value).split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

fn constraints(db: &dyn Database, live: &mut Live) -> Result<(), SchemaError> {
    let names = |attributes: &str, relation: &str| {
        format!(
            "array_to_string(ARRAY(SELECT a.attname FROM unnest(o.{attributes}) WITH ORDINALITY k(n, place)
               JOIN pg_attribute a ON a.attrelid = o.{relation} AND a.attnum = k.n ORDER BY k.place), ',')"
        )
    };
    let sql = format!(
        "SELECT c.relname, o.conname, o.contype::text, {}, coalesce(r.relname, ''), {},
                coalesce(obj_description(o.oid, 'pg_constraint'), ''), pg_get_constraintdef(o.oid),
                o.condeferrable OR NOT o.convalidated OR (o.contype = 'f' AND (o.confupdtype <> 'a' OR o.confdeltype <> 'a'))
         FROM pg_constraint o JOIN pg_class c ON c.oid = o.conrelid LEFT JOIN pg_class r ON r.oid = o.confrelid
         WHERE o.connamespace = current_schema()::regnamespace ORDER BY c.relname, o.conname",
        names("conkey", "conrelid"),
        names("confkey", "confrelid")
    );
    for row in db.rows(&sql)? {
        let (name, own, kind) = (text(&row[0]), text(&row[1]), text(&row[2]));
        if !live.schema.tables.contains_key(&name) {
            continue;
        }
        if row[8] == Value::Bool(true) {
            odd(live, &name, format!("its {} is deferrable, not validated, or acts on changes", text(&row[7])));
        }
        match kind.as_str() {
            "p" => primary_key(live, &name, list(&row[3])),
            "f" => {
                let target = text(&row[4]);
                foreign_key(live, &name, target, list(&row[3]), list(&row[5]));
            }
            "c" => check(live, &name, &own, &row),
            "n" => {}
            _ => odd(live, &name, format!("it has {}, where the host makes indexes", text(&row[7]))),
        }
    }
    Ok(())
}

fn primary_key(live: &mut Live, name: &str, mut columns: Vec<String>) {
    let Some(table) = live.schema.tables.get_mut(name) else { return };
    if table.shared {
        table.primary_key = columns;
    } else if columns.first().is_some_and(|first| first == TENANT) {
        table.primary_key = columns.split_off(1);
    } else {
        table.primary_key = columns;
        odd(live, name, format!("its primary key does not begin with {TENANT}"));
    }
}

fn foreign_key(live: &mut Live, name: &str, target: String, here: Vec<String>, there: Vec<String>) {
    let Some(table) = live.schema.tables.get_mut(name) else { return };
    let tenant = |column: &String| column == TENANT;
    let mut key = ForeignKey { table: target, shared: true, ..ForeignKey::default() };
    for (here, there) in here.into_iter().zip(there) {
        if tenant(&here) && tenant(&there) {
            key.shared = false;
        } else {
            key.columns.push(here);
            key.references.push(there);
        }
    }
    table.foreign_keys.push(key);
}

fn check(live: &mut Live, name: &str, own: &str, row: &[Value]) {
    let Some(table) = live.schema.tables.get_mut(name) else { return };
    let (about, columns) = (text(&row[6]), list(&row[3]));
    if own.starts_with(JSON_CHECK) {
        if let Some(column) = table.columns.iter_mut().find(|column| columns == [column.name.as_str()]) {
            column.ty = ColumnType::Json;
        }
    } else if about.is_empty() {
        odd(live, name, format!("it has {}", text(&row[7])));
    } else {
        let name = (!own.starts_with(CHECK)).then(|| own.to_owned());
        table.checks.push(Check { name, sql: about, line: 0 });
    }
}

fn indexes(db: &dyn Database, live: &mut Live) -> Result<(), SchemaError> {
    let sql = "SELECT c.relname, i.relname, x.indisunique, NOT x.indisvalid OR x.indpred IS NOT NULL
                      OR x.indexprs IS NOT NULL OR x.indnatts <> x.indnkeyatts OR m.amname <> 'btree'
                      OR coalesce(CAST(to_jsonb(x) ->> 'indnullsnotdistinct' AS BOOLEAN), FALSE),
                      array_to_string(ARRAY(SELECT a.attname FROM unnest(x.indkey::int[]) WITH ORDINALITY k(n, place)
                        JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.n ORDER BY k.place), ','),
                      EXISTS (SELECT 1 FROM unnest(x.indcollation::oid[]) l(oid) JOIN pg_collation p ON p.oid = l.oid
                        WHERE p.collname <> 'C'),
                      EXISTS (SELECT 1 FROM unnest(x.indoption::int[]) o(bits) WHERE o.bits & 1 = 1)
               FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid JOIN pg_class c ON c.oid = x.indrelid
                 JOIN pg_am m ON m.oid = i.relam
               WHERE c.relnamespace = current_schema()::regnamespace AND NOT EXISTS
                 (SELECT 1 FROM pg_constraint o WHERE o.conindid = x.indexrelid AND o.contype IN ('p', 'u', 'x'))
               ORDER BY i.relname";
    for row in db.rows(sql)? {
        let (name, index) = (text(&row[0]), text(&row[1]));
        let Some(table) = live.schema.tables.get_mut(&name) else { continue };
        let mut columns = list(&row[4]);
        let truth = |at: usize| row[at] == Value::Bool(true);
        let mut odd = truth(3).then_some("it is partial, over an expression, or of another kind");
        odd = odd.or(truth(5).then_some("it has a COLLATE")).or(truth(6).then_some("it is descending"));
        if !table.shared && columns.first().is_some_and(|first| first == TENANT) {
            columns.remove(0);
        } else if !table.shared {
            odd = odd.or(Some("it does not begin with tenant_id"));
        }
        table.indexes.push(Index { name: index.clone(), columns, unique: truth(2), line: 0 });
        if let Some(odd) = odd {
            live.odd_indexes.insert(index, odd.to_owned());
        }
    }
    Ok(())
}

fn triggers(db: &dyn Database, live: &mut Live) -> Result<(), SchemaError> {
    let sql = "SELECT c.relname, t.tgname, t.oid::bigint FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
               WHERE c.relnamespace = current_schema()::regnamespace AND NOT t.tgisinternal ORDER BY 1, 2";
    let mut seen = BTreeMap::new();
    for row in db.rows(sql)? {
        let (table, name) = (text(&row[0]), text(&row[1]));
        if live.schema.tables.contains_key(&table)
            && seen.insert((table.clone(), name.clone()), integer(&row[2])).is_none()
        {
            odd(live, &table, format!("it has the trigger {name}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_that_call_something_are_no_constants() {
        for constant in ["0", "'-1'::integer", "'a(b)'::text", "'x'::timestamp(3) with time zone", "(1 + 2)"] {
            assert!(is_constant(constant), "{constant}");
        }
        for other in ["now()", "nextval('s'::regclass)", "CURRENT_TIMESTAMP"] {
            assert!(!is_constant(other), "{other}");
        }
    }
}
