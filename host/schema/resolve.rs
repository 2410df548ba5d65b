//! What can only be checked once all tables are known: names, indexes, foreign keys, renames.

use std::collections::BTreeMap;

use super::parse::{Faults, LooseIndex, index_name_fits, without_tenant};
use super::{ForeignKey, Index, Schema, Table, did_you_mean, index_name};

/// Joins tables and indexes into a schema and checks what spans several of them.
pub(super) fn schema(tables: Vec<Table>, loose: Vec<LooseIndex>, shared: &[String], faults: &mut Faults) -> Schema {
    let mut schema = Schema::default();
    for table in tables {
        let line = u64::from(table.line);
        if let Some(first) = schema.tables.get(&table.name) {
            faults.add(line, format!("table {} stands on line {} already: delete one", table.name, first.line));
        } else {
            schema.tables.insert(table.name.clone(), table);
        }
    }
    for index in loose {
        attach(&mut schema, index, faults);
    }
    for name in shared.iter().filter(|name| !schema.tables.contains_key(*name)) {
        let hint = did_you_mean(name, schema.tables.keys().map(String::as_str));
        faults.add(1, format!("sharedTables in plugin.json names {name}, which is no table of schema.sql{hint}"));
    }
    for table in schema.tables.values() {
        columns_exist(table, faults);
        renames(&schema, table, faults);
    }
    index_names(&schema, faults);
    foreign_keys(&mut schema, faults);
    schema
}

fn attach(schema: &mut Schema, index: LooseIndex, faults: &mut Faults) {
    let names: Vec<String> = schema.tables.keys().cloned().collect();
    let Some(table) = schema.tables.get_mut(&index.table) else {
        let hint = did_you_mean(&index.table, names.iter().map(String::as_str));
        return faults.add(index.line, format!("there is no table {} to put an index on{hint}", index.table));
    };
    let columns = without_tenant(index.line, "an index", index.columns, faults);
    let name = match index.name {
        Some(name) => {
            index_name_fits(index.line, &name, faults);
            name
        }
        None => index_name(&table.name, &columns.iter().map(String::as_str).collect::<Vec<_>>()),
    };
    let line = u32::try_from(index.line).unwrap_or(u32::MAX);
    table.indexes.push(Index { name, columns, unique: index.unique, line });
}

/// Every column that a key or index names is there.
fn columns_exist(table: &Table, faults: &mut Faults) {
    let own = std::iter::once((table.line, "the primary key", &table.primary_key));
    let indexes = table.indexes.iter().map(|index| (index.line, index.name.as_str(), &index.columns));
    let foreign = table.foreign_keys.iter().map(|key| (key.line, "the foreign key", &key.columns));
    for (line, what, columns) in own.chain(indexes).chain(foreign) {
        for name in columns.iter().filter(|name| table.column(name).is_none()) {
            let hint = did_you_mean(name, table.columns.iter().map(|column| column.name.as_str()));
            faults.add(
                u64::from(line),
                format!("{what} of table {} names {name}, which is no column of it{hint}", table.name),
            );
        }
    }
}

fn renames(schema: &Schema, table: &Table, faults: &mut Faults) {
    if let Some(old) = table.was.as_ref().filter(|old| schema.tables.contains_key(*old)) {
        faults.add(
            u64::from(table.line),
            format!("-- was: {old}, but a table {old} is declared too: delete the comment or that table"),
        );
    }
    let twice = |other: &&Table| other.name != table.name && other.was.is_some() && other.was == table.was;
    if let Some(other) = schema.tables.values().find(twice).filter(|other| other.line < table.line) {
        faults.add(
            u64::from(table.line),
            format!("tables {} and {} have the same -- was: delete one", other.name, table.name),
        );
    }
    for column in &table.columns {
        let Some(old) = &column.was else { continue };
        let line = u64::from(column.line);
        if table.column(old).is_some() {
            faults.add(
                line,
                format!("-- was: {old}, but a column {old} is declared too: delete the comment or that column"),
            );
        }
        if table.columns.iter().any(|other| other.was == column.was && other.line < column.line) {
            faults.add(line, format!("-- was: {old} stands at two columns: delete one"));
        }
    }
}

/// Names of indexes are distinct, from each other and from tables, as both databases want it.
fn index_names(schema: &Schema, faults: &mut Faults) {
    let mut seen: BTreeMap<&str, (&str, u32)> =
        schema.tables.values().map(|table| (table.name.as_str(), ("table", table.line))).collect();
    let mut all: Vec<&Index> = schema.tables.values().flat_map(|table| &table.indexes).collect();
    all.sort_by_key(|index| index.line);
    for index in all {
        if let Some((what, line)) = seen.get(index.name.as_str()) {
            let line = format!("the {what} on line {line} is called so already");
            faults.add(
                u64::from(index.line),
                format!(
                    "index {}: {line}; give this one another name, for a UNIQUE with CONSTRAINT name UNIQUE (…)",
                    index.name
                ),
            );
        } else {
            seen.insert(&index.name, ("index", index.line));
        }
    }
}

fn foreign_keys(schema: &mut Schema, faults: &mut Faults) {
    let copy = schema.clone();
    for table in schema.tables.values_mut() {
        let own = table.clone();
        for key in &mut table.foreign_keys {
            if let Err(message) = foreign_key(&copy, &own, key) {
                faults.add(u64::from(key.line), message);
            }
        }
    }
}

/// Checks one foreign key, and fills in the columns where it names only the table.
fn foreign_key(schema: &Schema, table: &Table, key: &mut ForeignKey) -> Result<(), String> {
    let Some(target) = schema.tables.get(&key.table) else {
        let hint = did_you_mean(&key.table, schema.tables.keys().map(String::as_str));
        return Err(format!("REFERENCES {}: there is no such table{hint}", key.table));
    };
    if table.shared && !target.shared {
        return Err(format!(
            "{} is in sharedTables and cannot refer to {}, whose rows belong to tenants",
            table.name, target.name
        ));
    }
    key.shared = target.shared;
    if key.references.is_empty() {
        key.references.clone_from(&target.primary_key);
    }
    if key.columns.len() != key.references.len() {
        let (one, two) = (key.columns.join(", "), key.references.join(", "));
        return Err(format!("({one}) REFERENCES {} ({two}): write as many columns on both sides", target.name));
    }
    for (name, other) in key.columns.iter().zip(&key.references) {
        let Some(there) = target.column(other) else {
            let hint = did_you_mean(other, target.columns.iter().map(|column| column.name.as_str()));
            return Err(format!("REFERENCES {} ({other}): there is no such column{hint}", target.name));
        };
        if let Some(here) = table.column(name).filter(|here| here.ty != there.ty) {
            let (one, two) = (here.ty.name(), there.ty.name());
            return Err(format!("{name} is {one} and {}.{other} is {two}: make both the same type", target.name));
        }
    }
    let references: Vec<&str> = key.references.iter().map(String::as_str).collect();
    if !target.has_plain_unique(&references) {
        let ddl = super::missing_unique_ddl(target, &references);
        return Err(format!(
            "REFERENCES {} ({}): those columns are not unique there; add {ddl}",
            target.name,
            references.join(", ")
        ));
    }
    Ok(())
}
