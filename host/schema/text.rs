//! The model written back as `schema.sql`, in one form: the record of what was applied.

use sha2::{Digest, Sha256};

use super::ddl::literal;
use super::{Column, Schema, Table};

impl Schema {
    /// The same schema without what does not reach the database: lines, renames, and the order of things.
    #[must_use]
    pub fn normal(&self) -> Schema {
        let mut schema = self.clone();
        for table in schema.tables.values_mut() {
            table.line = 0;
            table.was = None;
            for column in &mut table.columns {
                column.line = 0;
                column.was = None;
            }
            table.columns.sort_by(|one, two| one.name.cmp(&two.name));
            table.indexes.iter_mut().for_each(|index| index.line = 0);
            table.indexes.sort_by(|one, two| one.name.cmp(&two.name));
            table.foreign_keys.iter_mut().for_each(|key| key.line = 0);
            table.foreign_keys.sort_by(|one, two| (&one.columns, &one.table).cmp(&(&two.columns, &two.table)));
            table.checks.iter_mut().for_each(|check| check.line = 0);
            table.checks.sort_by(|one, two| one.sql.cmp(&two.sql));
        }
        schema
    }

    /// `schema.sql` for this schema; reading it again gives the same schema.
    pub fn to_sql(&self) -> String {
        self.tables.values().map(table).collect()
    }

    /// Names of the shared tables.
    pub fn shared_tables(&self) -> Vec<String> {
        self.tables.values().filter(|table| table.shared).map(|table| table.name.clone()).collect()
    }

    /// SHA-256, hex, over the schema without lines, renames and order.
    pub fn hash(&self) -> String {
        let normal = self.normal();
        let text = format!("{}{}", normal.to_sql(), normal.shared_tables().join(","));
        let digest: [u8; 32] = Sha256::digest(text.as_bytes()).into();
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

fn table(table: &Table) -> String {
    let mut parts: Vec<String> = table.columns.iter().map(column).collect();
    parts.push(format!("PRIMARY KEY ({})", list(&table.primary_key)));
    for key in &table.foreign_keys {
        let (here, there) = (list(&key.columns), list(&key.references));
        parts.push(format!("FOREIGN KEY ({here}) REFERENCES {} ({there})", name(&key.table)));
    }
    for check in &table.checks {
        let own = check.name.as_ref().map_or_else(String::new, |own| format!("CONSTRAINT {} ", name(own)));
        parts.push(format!("{own}CHECK ({})", check.sql));
    }
    let mut sql = format!("CREATE TABLE {} (\n  {}\n);\n", name(&table.name), parts.join(",\n  "));
    for index in &table.indexes {
        let unique = if index.unique { "UNIQUE " } else { "" };
        let (own, on, columns) = (name(&index.name), name(&table.name), list(&index.columns));
        sql.push_str(&format!("CREATE {unique}INDEX {own} ON {on} ({columns});\n"));
    }
    sql
}

fn column(column: &Column) -> String {
    let not_null = if column.not_null { " NOT NULL" } else { "" };
    let default = column.default.as_ref().map_or_else(String::new, |value| format!(" DEFAULT {}", literal(value)));
    format!("{} {}{not_null}{default}", name(&column.name), column.ty.name())
}

/// Always quoted: a name may be a word of SQL.
fn name(name: &str) -> String {
    super::ddl::quote(name)
}

fn list(names: &[String]) -> String {
    super::ddl::quoted(names)
}
