//! The types that a plugin's own code is checked with.

use std::fmt::Write as _;

use super::caller::{actions, declarations};
use super::print::{Printer, block, key};
use crate::plugin::{Plugin, Registry};
use crate::schema::{Column, ColumnType, Table};

/// The text of a plugin's [`FILE`](super::FILE). `registry` has the plugins whose actions its scripts may run.
pub fn author(plugin: &Plugin, registry: &Registry) -> String {
    let mut body = String::new();
    section(&mut body, "Tables", plugin.schema.tables.values().map(|table| (table.name.clone(), table_type(table))));
    section(
        &mut body,
        "Flows",
        plugin.flows.values().map(|flow| {
            let seed: Vec<String> = flow.seed.iter().map(|name| format!("{}: unknown", key(name))).collect();
            // Exactly these keys; of none there is none.
            (flow.name.clone(), if seed.is_empty() { "{}".to_owned() } else { block(&seed, 4, false) })
        }),
    );
    section(&mut body, "Topics", plugin.topics.iter().map(|topic| (topic.clone(), "unknown".to_owned())));
    let mut printer = Printer::default();
    let others = plugin.permissions.invoke.iter().filter_map(|id| registry.plugins.get(id));
    section(&mut body, "Plugins", others.map(|other| (other.id.clone(), actions(other, &mut printer))));
    if body.is_empty() {
        body.push_str("  // Nothing is declared yet: no tables, flows or topics.\n");
    }
    format!(
        "// Written by oncehost from schema.sql, flows/ and handlers/: by `dev` on each reload, and by `oncehost types`.\n\
         // The host does not read it. What you change here is lost.\n\
         import '@oncehost/sdk/plugin'\n\n{}declare module '@oncehost/sdk/plugin' {{\n{}}}\n",
        declarations(&printer),
        body.trim_start_matches('\n'),
    )
}

fn section(body: &mut String, name: &str, members: impl Iterator<Item = (String, String)>) {
    let members: Vec<(String, String)> = members.collect();
    if members.is_empty() {
        return;
    }
    let _infallible = writeln!(body, "\n  interface {name} {{");
    for (name, ty) in members {
        let _infallible = writeln!(body, "    {}: {ty}", key(&name));
    }
    body.push_str("  }\n");
}

fn table_type(table: &Table) -> String {
    let read = table.columns.iter().map(|column| format!("{}: {}", column.script_name(), read_type(column)));
    let read: Vec<String> = read.collect();
    // The host fills `createdAt` and `updatedAt`.
    let own = table.columns.iter().filter(|column| column.script_name() == column.name);
    let written: Vec<String> = own.map(written_member).collect();
    let members = [format!("record: {}", block(&read, 6, false)), format!("insert: {}", block(&written, 6, false))];
    // Always one above the other: they are to be compared.
    format!("{{\n      {}\n      {}\n    }}", members[0], members[1])
}

fn read_type(column: &Column) -> String {
    let ty = match column.ty {
        ColumnType::Integer | ColumnType::Real => "number",
        ColumnType::Boolean => "boolean",
        ColumnType::Text | ColumnType::Timestamp => "string",
        ColumnType::Blob => "Uint8Array",
        ColumnType::Json => return "unknown".to_owned(),
    };
    if column.not_null { ty.to_owned() } else { format!("{ty} | null") }
}

fn written_member(column: &Column) -> String {
    let ty = match column.ty {
        ColumnType::Integer => "number | bigint",
        ColumnType::Real => "number",
        ColumnType::Boolean => "boolean",
        ColumnType::Text => "string",
        ColumnType::Timestamp => "string | Date",
        ColumnType::Blob => "Uint8Array",
        ColumnType::Json => "unknown",
    };
    let filled = column.name == "id" && column.ty == ColumnType::Text;
    let optional = !column.not_null || column.default.is_some() || filled;
    let mark = if optional { "?" } else { "" };
    let null = if column.not_null || column.ty == ColumnType::Json { "" } else { " | null" };
    let undefined = if optional && column.ty != ColumnType::Json { " | undefined" } else { "" };
    format!("{}{mark}: {ty}{null}{undefined}", column.name)
}
