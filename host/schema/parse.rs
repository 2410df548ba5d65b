//! From the text of `schema.sql` to the model, and every fault in it at once.
//!
//! What the contract leaves open is decided so: every table has a primary key; IF NOT EXISTS is read and means nothing;
//! foreign keys have no actions and are checked at once; names stand bare or in double quotes and are small as written;
//! a CHECK compares like with like, so that both databases take it; `-- was: old`, or `/* was: old */`, stands on the
//! line of a table or column, or alone on the line above, and may stay there once the renaming is done.

use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::tokens::{self, Renames, Tokens};
use super::{MAX_INDEX_NAME, NAME_RULE, Schema, TENANT, Table, columns, indexes, resolve};

/// Something in `schema.sql` that is wrong or outside the language (spec §8).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaFault {
    /// Line of `schema.sql`, from 1.
    pub line: u32,
    /// What is wrong and what to write instead.
    pub message: String,
}

/// The faults found so far.
#[derive(Debug, Default)]
pub(super) struct Faults(Vec<SchemaFault>);

impl Faults {
    pub(super) fn add(&mut self, line: u64, message: impl Into<String>) {
        let line = u32::try_from(line).unwrap_or(u32::MAX).max(1);
        self.0.push(SchemaFault { line, message: message.into() });
    }

    /// Whether `name` may name a column; Postgres has some of its own in every table.
    pub(super) fn column_name(&mut self, line: u64, name: &str) {
        if ["tableoid", "xmin", "cmin", "xmax", "cmax", "ctid"].contains(&name) {
            self.add(line, format!("{name} cannot name a column: Postgres has one of that name in every table"));
        } else {
            self.name(line, "a column", name, 48);
        }
    }

    /// Whether `name` may name a table, column, constraint or (with `longest` 63) an index; adds the fault if not.
    pub(super) fn name(&mut self, line: u64, what: &str, name: &str, longest: usize) -> bool {
        let rest = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        let shape = name.starts_with(|first: char| first.is_ascii_lowercase()) && name.bytes().all(rest);
        if shape && name.len() <= longest && !name.starts_with("sqlite_") && !name.starts_with("pg_") {
            return true;
        }
        let rule = NAME_RULE.replace("48", &longest.to_string());
        let small = name.to_ascii_lowercase();
        let hint = if small != name { format!("; write {small}") } else { String::new() };
        self.add(line, format!("{name} cannot name {what} ({rule}){hint}"));
        false
    }
}

/// Reads `schema.sql`. `shared_tables` is the list `sharedTables` of `plugin.json`.
///
/// # Errors
/// All faults, in the order of their lines.
pub fn parse(sql: &str, shared_tables: &[String]) -> Result<Schema, Vec<SchemaFault>> {
    let mut faults = Faults::default();
    let mut reader = Reader { shared_tables, ..Reader::default() };
    match tokens::tokens(sql.trim_start_matches('\u{feff}')) {
        Ok(all) => {
            reader.renames = Renames::read(&all, &mut faults);
            for statement in tokens::statements(&all) {
                reader.statement(&statement, &mut faults);
            }
        }
        Err((line, message)) => faults.add(line, message),
    }
    for line in reader.renames.left() {
        faults.add(line, "-- was: stands on the line of a table or column, or alone on the line above: move it there");
    }
    let schema = resolve::schema(reader.tables, reader.indexes, shared_tables, &mut faults);
    if faults.0.is_empty() {
        return Ok(schema);
    }
    faults.0.sort_by_key(|fault| fault.line);
    Err(faults.0)
}

/// A CREATE INDEX, before it is known which table it belongs to.
#[derive(Debug)]
pub(super) struct LooseIndex {
    pub(super) table: String,
    pub(super) name: Option<String>,
    pub(super) columns: Vec<String>,
    pub(super) unique: bool,
    pub(super) line: u64,
}

#[derive(Default)]
struct Reader<'a> {
    shared_tables: &'a [String],
    renames: Renames,
    tables: Vec<Table>,
    indexes: Vec<LooseIndex>,
}

impl Reader<'_> {
    fn statement(&mut self, statement: Tokens, faults: &mut Faults) {
        if tokens::words_at(statement, 0, "CREATE TABLE") {
            self.table(statement, faults);
        } else if tokens::words_at(statement, 0, "CREATE INDEX")
            || tokens::words_at(statement, 0, "CREATE UNIQUE INDEX")
        {
            self.indexes.extend(indexes::read(statement, faults));
        } else {
            let text = tokens::text(statement);
            faults.add(
                tokens::line(statement),
                format!(
                    "{text} …: schema.sql holds CREATE TABLE and CREATE [UNIQUE] INDEX, nothing else; {}",
                    instead(statement)
                ),
            );
        }
    }

    fn table(&mut self, statement: Tokens, faults: &mut Faults) {
        let line = tokens::line(statement);
        let at = if tokens::words_at(statement, 2, "IF NOT EXISTS") { 5 } else { 2 };
        let Some(name) = statement.get(at).and_then(name_of) else {
            return faults.add(line, "CREATE TABLE needs a name: write CREATE TABLE name (…)");
        };
        let body = statement.get(at + 1..).unwrap_or_default();
        if body.first().is_some_and(|token| token.token == Token::Period) {
            return faults.add(
                line,
                format!("a table's name has no schema in front: write CREATE TABLE {}", tokens::text(&body[1..])),
            );
        }
        if body.first().is_none_or(|token| token.token != Token::LParen) {
            return faults.add(line, format!("write the columns after the name: CREATE TABLE {name} (…)"));
        }
        let Some((elements, rest)) = tokens::elements(body) else {
            return faults.add(line, format!("the parentheses of table {name} do not close"));
        };
        if !rest.is_empty() {
            let text = tokens::text(rest);
            faults.add(
                tokens::line(rest),
                format!("{text} is not part of schema.sql: the host says how tables are stored; end the table with );"),
            );
        }
        let valid = faults.name(line, "a table", &name, 48);
        let own_line = self.renames.is_on(line);
        let was = self.renames.take(line).filter(|old| {
            let columns = elements.iter().filter(|element| !element.is_empty());
            let unclear = own_line && columns.map(|element| tokens::line(element)).any(|at| at == line);
            if unclear {
                let text =
                    format!("-- was: {old} may mean the table or a column: write it alone on the line above the one");
                faults.add(line, text);
            }
            !unclear
        });
        if let Some(old) = &was {
            faults.name(line, "the old table", old, 48);
        }
        let shared = self.shared_tables.contains(&name);
        let table = Table { name, was, shared, line: u32::try_from(line).unwrap_or(u32::MAX), ..Table::default() };
        let table = columns::table(table, &elements, &mut self.renames, faults);
        if valid {
            self.tables.push(table);
        }
    }
}

/// The name that a token is, bare or in double quotes.
pub(super) fn name_of(token: &TokenWithSpan) -> Option<String> {
    let Token::Word(word) = &token.token else { return None };
    matches!(word.quote_style, None | Some('"')).then(|| word.value.clone())
}

/// What an author who wrote this statement is likely to want.
fn instead(statement: Tokens) -> &'static str {
    match tokens::word(statement, 0).as_deref() {
        Some("ALTER") => {
            "change the CREATE TABLE itself, `schema plan` finds the steps (for a new name, -- was: old_name above it)"
        }
        Some("DROP") => "delete the CREATE statement instead",
        Some("INSERT" | "UPDATE" | "DELETE" | "REPLACE") => "write rows in an action",
        Some("BEGIN" | "COMMIT" | "PRAGMA" | "SET") => "delete this line, the host sees to it",
        _ if tokens::words_at(statement, 0, "CREATE TRIGGER") => "do in the action what the trigger would do",
        _ if tokens::words_at(statement, 0, "CREATE VIEW") => "write the query in an action",
        _ => "delete this statement",
    }
}

/// Whether `name` is a fit name for an index.
pub(super) fn index_name_fits(line: u64, name: &str, faults: &mut Faults) -> bool {
    faults.name(line, "an index", name, MAX_INDEX_NAME)
}

/// `columns` without the host's `tenant_id`, which stands in front of every key anyway. Adds a fault where nothing
/// else is left.
pub(super) fn without_tenant(line: u64, what: &str, mut columns: Vec<String>, faults: &mut Faults) -> Vec<String> {
    columns.retain(|name| name != TENANT);
    if columns.is_empty() {
        faults.add(line, format!("{what} on {TENANT} alone: the host has that already, delete it"));
    }
    columns
}
