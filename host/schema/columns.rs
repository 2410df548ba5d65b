//! The elements of a CREATE TABLE: columns with their options, and table constraints.

use sqlparser::ast::{
    CheckConstraint, ColumnDef, ColumnOption, ColumnOptionDef, DataType, Expr, ForeignKeyConstraint, Ident,
    KeyOrIndexDisplay, PrimaryKeyConstraint, TableConstraint, UniqueConstraint,
};

use super::parse::{Faults, index_name_fits, without_tenant};
use super::tokens::{self, Renames, Tokens};
use super::{Check, Column, ColumnType, ForeignKey, Index, TENANT, Table, checks, constants, index_name, indexes};

/// Fills `table` from its elements.
pub(super) fn table(table: Table, elements: &[Tokens], renames: &mut Renames, faults: &mut Faults) -> Table {
    let mut walk = Walk { line: u64::from(table.line), table, keys: 0, checks: Vec::new(), tenant: false, faults };
    for (at, element) in elements.iter().enumerate() {
        let line = tokens::line(element);
        if line == 0 {
            walk.faults.add(walk.line, "there is nothing between two commas, or after the last: delete one");
        } else if tokens::word(element, 0).is_some_and(|word| CONSTRAINTS.contains(&word.as_str())) {
            let read = tokens::read(element, walk.faults, |parser| parser.parse_optional_table_constraint());
            if let Some(constraint) = read.flatten() {
                walk.constraint(line, constraint);
            }
        } else if let Some(column) = tokens::read(element, walk.faults, |parser| parser.parse_column_def()) {
            let was = if line == walk.line { None } else { renames.take(line) };
            let beside = elements.iter().enumerate().any(|(other, one)| other != at && tokens::line(one) == line);
            if let Some(old) = was.as_ref().filter(|_| beside) {
                let text = format!("-- was: {old} may mean several columns: give each a line of its own");
                walk.faults.add(line, text);
            }
            walk.column(line, column, was);
        }
    }
    walk.finish()
}

/// More columns are not for a table: the databases end at 2000 and 1600, and each value counts in a statement.
pub(super) const MOST_COLUMNS: usize = 500;

const CONSTRAINTS: [&str; 5] = ["CONSTRAINT", "PRIMARY", "UNIQUE", "CHECK", "FOREIGN"];

struct Walk<'a> {
    table: Table,
    line: u64,
    /// Primary keys seen so far.
    keys: u32,
    /// Conditions, read once all columns are known.
    checks: Vec<(u64, Option<Ident>, Box<Expr>)>,
    /// `tenant_id` was written out.
    tenant: bool,
    faults: &'a mut Faults,
}

fn small(line: u64) -> u32 {
    u32::try_from(line).unwrap_or(u32::MAX)
}

impl Walk<'_> {
    fn column(&mut self, line: u64, parsed: ColumnDef, was: Option<String>) {
        let name = match indexes::bare(&parsed.name) {
            Ok(name) => name,
            Err(message) => return self.faults.add(line, message),
        };
        self.faults.column_name(line, &name);
        let ty = column_type(&parsed.data_type).unwrap_or_else(|instead| {
            self.faults.add(line, format!("column {name}: {instead}"));
            ColumnType::Text
        });
        if name == TENANT {
            return self.tenant_column(line, ty, &parsed.options);
        }
        if matches!(name.as_str(), "created_at" | "updated_at") && ty != ColumnType::Timestamp {
            self.faults.add(line, format!("the host fills {name} with a time: write {name} TIMESTAMP"));
        }
        if self.table.column(&name).is_some() {
            self.faults.add(line, format!("column {name} stands twice in table {}: delete one", self.table.name));
        }
        if let Some(old) = &was {
            self.faults.name(line, "the old column", old, 48);
        }
        if self.table.columns.len() == MOST_COLUMNS {
            let table = &self.table.name;
            let text =
                format!("table {table} has more than {MOST_COLUMNS} columns: make two tables of it, or a JSON column");
            self.faults.add(line, text);
        }
        let mut column = Column { name, ty, not_null: false, default: None, was, line: small(line) };
        for option in parsed.options {
            self.option(line, &mut column, option);
        }
        self.table.columns.push(column);
    }

    fn tenant_column(&mut self, line: u64, ty: ColumnType, options: &[ColumnOptionDef]) {
        self.tenant = true;
        let plain = options.iter().all(|option| matches!(option.option, ColumnOption::NotNull));
        if self.table.shared {
            let table = &self.table.name;
            self.faults.add(line, format!("{table} is in sharedTables, so it has no {TENANT}: delete the column"));
        } else if ty != ColumnType::Text || !plain {
            self.faults
                .add(line, format!("{TENANT} belongs to the host: leave it out, or write {TENANT} TEXT NOT NULL"));
        }
    }

    fn option(&mut self, line: u64, column: &mut Column, option: ColumnOptionDef) {
        let name = column.name.clone();
        if matches!(option.option, ColumnOption::Null) {
            return;
        }
        if matches!(option.option, ColumnOption::NotNull) {
            column.not_null = true;
            return;
        }
        if let ColumnOption::Default(expr) = &option.option {
            match constants::constant(expr, column.ty) {
                Ok(value) => column.default = value,
                Err(message) => {
                    self.faults.add(line, format!("DEFAULT of column {name}: {}", default_hint(expr, message)))
                }
            }
            return;
        }
        if let ColumnOption::Check(check) = option.option {
            return self.check(line, check, option.name);
        }
        if let ColumnOption::ForeignKey(key) = option.option {
            return self.foreign_key(line, ForeignKeyConstraint { columns: vec![Ident::new(name)], ..key });
        }
        if let ColumnOption::PrimaryKey(key) = &option.option {
            let plain = PrimaryKeyConstraint { name: key.name.clone(), ..plain_primary_key() };
            if *key != plain {
                self.faults.add(line, format!("{}: write PRIMARY KEY alone", option.option));
            }
            return self.primary_key(line, vec![name]);
        }
        if let ColumnOption::Unique(key) = option.option {
            let named = option.name.or_else(|| key.name.clone());
            return self.unique(line, UniqueConstraint { name: named, ..key }, vec![name]);
        }
        self.faults.add(line, format!("column {name}: {}", refused(&option.option)));
    }

    fn constraint(&mut self, line: u64, constraint: TableConstraint) {
        if let TableConstraint::Check(check) = constraint {
            return self.check(line, check, None);
        }
        if let TableConstraint::ForeignKey(key) = constraint {
            return self.foreign_key(line, key);
        }
        if let TableConstraint::PrimaryKey(key) = constraint {
            let Some(columns) = indexes::column_list(line, &key.columns, self.faults) else { return };
            let plain =
                PrimaryKeyConstraint { name: key.name.clone(), columns: key.columns.clone(), ..plain_primary_key() };
            if key != plain {
                self.faults.add(line, format!("{key}: write PRIMARY KEY ({}) alone", columns.join(", ")));
            }
            let columns = without_tenant(line, "a primary key", columns, self.faults);
            return self.primary_key(line, columns);
        }
        if let TableConstraint::Unique(mut key) = constraint {
            let Some(columns) = indexes::column_list(line, &key.columns, self.faults) else { return };
            key.columns.clear();
            return self.unique(line, key, columns);
        }
        let instead = "PRIMARY KEY, UNIQUE, FOREIGN KEY, CHECK, or CREATE INDEX after the table";
        self.faults.add(line, format!("{constraint} is not part of schema.sql: write {instead}"));
    }

    fn primary_key(&mut self, line: u64, columns: Vec<String>) {
        self.keys += 1;
        if self.keys > 1 {
            let table = &self.table.name;
            return self
                .faults
                .add(line, format!("table {table} has a second primary key: write one PRIMARY KEY (a, b)"));
        }
        self.table.primary_key = columns;
    }

    fn unique(&mut self, line: u64, key: UniqueConstraint, columns: Vec<String>) {
        let plain = key.index_name.is_none()
            && key.index_type.is_none()
            && key.include.is_empty()
            && key.index_options.is_empty()
            && key.characteristics.is_none()
            && indexes::nulls_plain(key.nulls_distinct)
            && matches!(key.index_type_display, KeyOrIndexDisplay::None);
        if !plain {
            self.faults.add(line, format!("{key}: write UNIQUE ({}) alone", columns.join(", ")));
        }
        let columns = without_tenant(line, "UNIQUE", columns, self.faults);
        let name = key.name.map(|name| name.value);
        if let Some(name) = &name {
            index_name_fits(line, name, self.faults);
        }
        let names: Vec<&str> = columns.iter().map(String::as_str).collect();
        let name = name.unwrap_or_else(|| index_name(&self.table.name, &names));
        self.table.indexes.push(Index { name, columns, unique: true, line: small(line) });
    }

    fn foreign_key(&mut self, line: u64, key: ForeignKeyConstraint) {
        let plain = key.index_name.is_none() && key.match_kind.is_none() && key.characteristics.is_none();
        if key.on_delete.is_some() || key.on_update.is_some() {
            let instead = "leave them out, and delete or change the rows that refer here in the action, first";
            self.faults.add(line, format!("ON DELETE and ON UPDATE are not part of schema.sql: {instead}"));
        } else if !plain {
            self.faults.add(line, format!("{key}: write REFERENCES table (columns) alone"));
        }
        let mut names = [Vec::new(), Vec::new()];
        for (list, names) in [&key.columns, &key.referred_columns].into_iter().zip(&mut names) {
            for name in list {
                match indexes::bare(name) {
                    Ok(name) => names.push(name),
                    Err(message) => return self.faults.add(line, message),
                }
            }
        }
        let [mut columns, mut references] = names;
        let Some(table) = indexes::simple(line, &key.foreign_table.to_string(), self.faults) else { return };
        columns.retain(|name| name != TENANT);
        references.retain(|name| name != TENANT);
        self.table.foreign_keys.push(ForeignKey { columns, table, references, shared: false, line: small(line) });
    }

    fn check(&mut self, line: u64, check: CheckConstraint, name: Option<Ident>) {
        if check.no_inherit || check.enforced.is_some() {
            self.faults.add(line, format!("{check}: write CHECK ({}) alone", check.expr));
        }
        let name = name.or(check.name);
        if let Some(name) = &name {
            self.faults.name(line, "a CHECK", &name.value, 48);
        }
        self.checks.push((line, name, check.expr));
    }

    fn finish(mut self) -> Table {
        for (line, name, expr) in std::mem::take(&mut self.checks) {
            match checks::condition(&expr, &self.table) {
                Ok(sql) => {
                    let name = name.map(|name| name.value);
                    // One that says no more than the column's type would be taken for the host's own.
                    let idle = self
                        .table
                        .columns
                        .iter()
                        .any(|column| super::ddl::type_check(column).is_some_and(|own| own == sql));
                    if !idle && !self.table.checks.iter().any(|check| check.sql == sql) {
                        self.table.checks.push(Check { name, sql, line: small(line) });
                    }
                }
                Err((at, message)) => self.faults.add(if at == 0 { line } else { at }, message),
            }
        }
        if self.keys == 0 {
            let table = &self.table.name;
            self.faults.add(
                self.line,
                format!("table {table} has no primary key: write one, for example id TEXT PRIMARY KEY"),
            );
        }
        let key = &self.table.primary_key;
        for column in self.table.columns.iter_mut().filter(|column| key.contains(&column.name)) {
            column.not_null = true;
        }
        self.table
    }
}

fn plain_primary_key() -> PrimaryKeyConstraint {
    PrimaryKeyConstraint {
        name: None,
        index_name: None,
        index_type: None,
        columns: Vec::new(),
        include: Vec::new(),
        index_options: Vec::new(),
        characteristics: None,
    }
}

/// The type that is meant, or what to write instead.
fn column_type(parsed: &DataType) -> Result<ColumnType, String> {
    let text = parsed.to_string().to_ascii_uppercase();
    if let Some(ty) = ColumnType::ALL.into_iter().find(|ty| ty.name() == text) {
        return Ok(ty);
    }
    let begins = |words: &[&str]| words.iter().any(|word| text.starts_with(word));
    let instead = if text.is_empty() {
        return Err("a column needs a type: write TEXT, INTEGER, REAL, BOOLEAN, BLOB, JSON or TIMESTAMP".into());
    } else if begins(&["ARRAY", "JSONB", "MAP", "STRUCT"]) {
        "JSON"
    } else if begins(&["DATE", "TIME"]) {
        "TIMESTAMP (UTC, with milliseconds), or TEXT for a day without a time"
    } else if begins(&["INT", "BIGINT", "SMALLINT", "TINYINT", "MEDIUMINT", "SERIAL", "BIGSERIAL", "UNSIGNED", "LONG"])
    {
        "INTEGER (64 bits)"
    } else if begins(&["DEC", "NUMERIC", "MONEY", "NUMBER"]) {
        "INTEGER and count the smallest unit, such as cents"
    } else if begins(&["DOUBLE", "FLOAT"]) {
        "REAL"
    } else if begins(&["BOOL", "BIT"]) {
        "BOOLEAN"
    } else if begins(&["BYTE", "BINARY", "VARBINARY", "IMAGE"]) {
        "BLOB"
    } else if begins(&["VARCHAR", "CHAR", "NVARCHAR", "NCHAR", "CLOB", "STRING", "UUID", "ENUM", "TEXT"]) {
        "TEXT"
    } else {
        "TEXT, INTEGER, REAL, BOOLEAN, BLOB, JSON or TIMESTAMP"
    };
    Err(format!("{text} is not a type of schema.sql: write {instead}"))
}

fn default_hint(expr: &Expr, message: String) -> String {
    let text = expr.to_string().to_ascii_uppercase();
    if text.contains("CURRENT_") || text.contains("NOW(") {
        return format!(
            "{text} is not a constant; the host fills created_at and updated_at, and a handler has ctx.now for other \
             columns: leave the DEFAULT out"
        );
    }
    message
}

/// Why an option is not in the language.
fn refused(option: &ColumnOption) -> String {
    let text = option.to_string();
    let instead = if matches!(option, ColumnOption::Collation(_)) {
        "text compares by its bytes everywhere; leave it out"
    } else if matches!(option, ColumnOption::OnConflict(_)) {
        "the host answers conflicts itself; leave it out"
    } else if matches!(option, ColumnOption::Generated { .. }) {
        "compute the value in the action that writes the row"
    } else if text.to_ascii_uppercase().contains("INCREMENT") || matches!(option, ColumnOption::Identity(_)) {
        "no column counts by itself; write id TEXT PRIMARY KEY, the host fills it with a rising UUID"
    } else {
        "leave it out"
    };
    format!("{text} is not part of schema.sql: {instead}")
}
