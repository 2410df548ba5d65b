//! The steps from what is in a database to what `schema.sql` wants.

use serde::Serialize;

use super::database::{Database, Dialect, number};
use super::ddl::{key_columns, quote, quoted};
use super::diff::{self, TableDiff};
use super::inspect::Live;
use super::record;
use super::rename::{self, OldNames};
use super::rows::{self, Offending};
use super::{HOST_PREFIX, Schema, SchemaError, Table};

/// One change to the database.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Step {
    pub why: String,
    pub sql: Vec<String>,
    /// Names that `--allow-destructive` has to list for this step: `table`, or `table.column`.
    pub destructive: Vec<String>,
}

impl Step {
    pub(super) fn new(why: impl Into<String>, sql: Vec<String>) -> Self {
        Self { why: why.into(), sql, destructive: Vec::new() }
    }
}

/// Why the plan cannot be applied as it is.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Refusal {
    pub message: String,
    /// The name for `--allow-destructive` that would lift this refusal.
    pub allow: Option<String>,
    /// Rows that the new definition cannot hold.
    pub offending: Option<Offending>,
}

/// What `schema apply` would do.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Plan {
    /// In the order in which they run, all in one transaction.
    pub steps: Vec<Step>,
    /// While there is one, nothing is applied.
    pub refusals: Vec<Refusal>,
    /// How the database differs from what was applied last: changes by other hands.
    pub drift: Vec<String>,
}

/// Compares `wanted` with the database and finds the steps. Only reads. `allow_destructive` lists what may lose data:
/// `table` for a table, `table.column` for a column that goes or changes its type, the name of a trigger or view.
///
/// # Errors
/// When the database cannot be read.
pub fn plan(db: &dyn Database, wanted: &Schema, allow_destructive: &[String]) -> Result<Plan, SchemaError> {
    let live = db.inspect()?;
    let drift = drift(db, &live)?;
    let mut base = live.schema.clone();
    let (old, renames) = rename::apply(db.dialect(), &mut base, wanted);
    let base = base.normal();
    let mut planner =
        Planner { db, live: &live, base: &base, wanted, old, phases: Phases::default(), refusals: Vec::new() };
    planner.phases.renames = renames;
    for (kind, name) in &live.others {
        planner.phases.others.push(Step {
            why: format!("{kind} {name} was made by hand; schema.sql has none"),
            sql: vec![format!("DROP {} {}", kind.to_ascii_uppercase(), quote(name))],
            destructive: vec![name.clone()],
        });
    }
    for table in base.tables.values().filter(|table| !wanted.tables.contains_key(&table.name)) {
        planner.drop_table(table)?;
    }
    for table in wanted.tables.values() {
        match base.tables.get(&table.name) {
            Some(before) => planner.existing(before, table)?,
            None => planner.new_table(table),
        }
    }
    Ok(planner.finish(drift, allow_destructive))
}

/// How the database differs from what was applied last.
fn drift(db: &dyn Database, live: &Live) -> Result<Vec<String>, SchemaError> {
    let mut drift = match record::read(db)? {
        Some(record) => record.schema.map_or_else(Vec::new, |applied| diff::words(&applied, &live.schema)),
        None => live.schema.tables.keys().map(|name| format!("table {name} was not made by schema apply")).collect(),
    };
    for (table, odd) in &live.odd_tables {
        drift.extend(odd.iter().map(|what| format!("table {table}: {what}")));
    }
    drift.extend(live.odd_indexes.iter().map(|(index, what)| format!("index {index}: {what}")));
    drift.extend(live.others.iter().map(|(kind, name)| format!("{kind} {name} is new")));
    Ok(drift)
}

/// Steps by the order in which they have to run.
#[derive(Default)]
struct Phases {
    others: Vec<Step>,
    renames: Vec<Step>,
    drops: Vec<Step>,
    tables: Vec<Step>,
    columns: Vec<Step>,
    indexes: Vec<Step>,
    /// Tables that are made, new or anew.
    made: Vec<String>,
}

struct Planner<'a> {
    db: &'a dyn Database,
    live: &'a Live,
    /// The database as it is after the renames, in normal form.
    base: &'a Schema,
    wanted: &'a Schema,
    old: OldNames,
    phases: Phases,
    refusals: Vec<Refusal>,
}

impl Planner<'_> {
    fn dialect(&self) -> Dialect {
        self.db.dialect()
    }

    fn refuse(&mut self, message: String, offending: Option<Offending>) {
        self.refusals.push(Refusal { message, allow: None, offending });
    }

    fn drop_table(&mut self, table: &Table) -> Result<(), SchemaError> {
        let rows = self.count(&table.name)?;
        let why = format!(
            "table {} ({rows}) is not in schema.sql; if it has a new name there, write -- was: {} above that",
            table.name, table.name
        );
        let sql = vec![format!("DROP TABLE {}", quote(&table.name))];
        self.phases.drops.push(Step { why, sql, destructive: vec![table.name.clone()] });
        Ok(())
    }

    fn new_table(&mut self, table: &Table) {
        let dialect = self.dialect();
        let sql = dialect.create_table(table, &table.name);
        let indexes: Vec<String> = table.indexes.iter().map(|index| dialect.create_index(table, index)).collect();
        self.phases
            .indexes
            .extend((!indexes.is_empty()).then(|| Step::new(format!("indexes of table {}", table.name), indexes)));
        self.phases.made.push(table.name.clone());
        self.phases.tables.push(Step::new(format!("table {} is new", table.name), sql));
    }

    fn existing(&mut self, before: &Table, table: &Table) -> Result<(), SchemaError> {
        let now = Schema { tables: [(table.name.clone(), table.clone())].into() }.normal();
        let Some(now) = now.tables.get(&table.name) else { return Ok(()) };
        let diff = TableDiff::new(before, now);
        let odd = self.live.odd_tables.get(self.old.table(&table.name)).cloned().unwrap_or_default();
        let rebuild = diff.needs_rebuild() || !odd.is_empty();
        self.check_rows(before, table, &diff)?;
        for index in &before.indexes {
            let odd = self.live.odd_indexes.get(&index.name);
            let why = match odd {
                Some(odd) => format!("index {} was made by hand: {odd}", index.name),
                None if diff.indexes_dropped.contains(&index) => {
                    format!("index {} is not so in schema.sql", index.name)
                }
                None => continue,
            };
            self.phases.drops.push(Step::new(why, vec![format!("DROP INDEX {}", quote(&index.name))]));
        }
        if rebuild {
            self.rebuild(before, table, &diff, odd);
        } else {
            for column in table.columns.iter().filter(|column| before.column(&column.name).is_none()) {
                let why = format!("column {} of table {} is new", column.name, table.name);
                self.phases.columns.push(Step::new(why, vec![self.dialect().add_column(table, column)]));
            }
        }
        for index in &table.indexes {
            let added = diff.indexes_added.iter().any(|added| added.name == index.name)
                || self.live.odd_indexes.contains_key(&index.name);
            if added || rebuild {
                let why = if added { "is new" } else { "goes with its table" };
                self.phases.indexes.push(Step::new(
                    format!("index {} {why}", index.name),
                    vec![self.dialect().create_index(table, index)],
                ));
            }
        }
        Ok(())
    }

    /// Makes the table anew beside the old one, moves the rows, and lets it take the old one's place. Foreign keys are
    /// not enforced meanwhile, so nothing cascades; `apply` checks them at the end.
    fn rebuild(&mut self, before: &Table, table: &Table, diff: &TableDiff, odd: Vec<String>) {
        let beside = format!("{HOST_PREFIX}new_{}", table.name);
        let dialect = self.dialect();
        let mut sql = dialect.create_table(table, &beside);
        self.phases.made.push(table.name.clone());
        if !diff.shared {
            let names: Vec<String> = table.columns.iter().map(|column| column.name.clone()).collect();
            let columns = quoted(&key_columns(table, &names));
            sql.push(format!(
                "INSERT INTO {} ({columns}) {}",
                quote(&beside),
                rows::future(dialect, before, table, None)
            ));
        }
        sql.push(dialect.drop_replaced(&table.name));
        sql.push(format!("ALTER TABLE {} RENAME TO {}", quote(&beside), quote(&table.name)));
        let mut reasons = diff.definition();
        if let (Some(gone), Some(added)) = (diff.columns_dropped.first(), diff.columns_added.first()) {
            let (gone, added) = (&gone.name, &added.name);
            reasons.push(format!("if {gone} is called {added} now, write -- was: {gone} at {added}"));
        }
        reasons.extend(odd);
        let name = |column: &str| format!("{}.{column}", table.name);
        let dropped = diff.columns_dropped.iter().map(|column| name(&column.name));
        let retyped = diff.types.iter().map(|(_, column)| name(&column.name));
        let destructive = dropped.chain(retyped).collect();
        self.phases.tables.push(Step {
            why: format!("table {} is made anew: {}", table.name, reasons.join("; ")),
            sql,
            destructive,
        });
    }

    /// Refuses what the rows that are there cannot become.
    fn check_rows(&mut self, before: &Table, table: &Table, diff: &TableDiff) -> Result<(), SchemaError> {
        let (db, name) = (self.db, &table.name);
        let there = quote(self.old.table(name));
        if diff.shared {
            let every = format!("SELECT * FROM {there}");
            if let Some(found) = rows::offending(db, &every, "TRUE", self.old_key(before))? {
                let instead = "make another table and move them with an action";
                let what = "cannot move between tenants' and shared tables while it has rows";
                self.refuse(format!("table {name} {what}: {instead}"), Some(found));
            }
            return Ok(());
        }
        for (from, to) in &diff.types {
            let old = self.old.column(name, &to.name).to_owned();
            let (one, two) = (from.ty.name(), to.ty.name());
            let (condition, message) = match self.dialect().conversion(from.ty, to.ty, &quote(&old)) {
                Some(rows::Conversion { impossible: None, .. }) => continue,
                Some(rows::Conversion { impossible: Some(condition), .. }) => (
                    condition,
                    format!("values of column {name}.{} have no counterpart in {two}: change them first", to.name),
                ),
                None => (
                    format!("{} IS NOT NULL", quote(&old)),
                    format!(
                        "column {name}.{} cannot go from {one} to {two} while it has values: add a column, fill it \
                         with an action, then delete the old one",
                        to.name
                    ),
                ),
            };
            let mut shown = self.old_key(before);
            shown.retain(|column| *column != old);
            shown.push(old);
            if let Some(found) = rows::offending(db, &format!("SELECT * FROM {there}"), &condition, shown)? {
                self.refuse(message, Some(found));
                return Ok(());
            }
        }
        self.check_constraints(before, table, diff)
    }

    /// The columns by which a person finds a row of the table as it still is.
    fn old_key(&self, before: &Table) -> Vec<String> {
        let key = rows::shown(before, &[]).into_iter();
        key.map(|column| self.old.column(&before.name, &column).to_owned()).collect()
    }

    fn check_constraints(&mut self, before: &Table, table: &Table, diff: &TableDiff) -> Result<(), SchemaError> {
        let (db, name) = (self.db, &table.name);
        let source = rows::future(self.dialect(), before, table, Some(&self.old));
        let bare = diff.columns_added.iter().filter(|column| column.not_null && column.default.is_none());
        for column in bare.chain(diff.nulls.iter().filter(|column| column.not_null)) {
            let condition = format!("{} IS NULL", quote(&column.name));
            let shown = rows::shown(table, std::slice::from_ref(&column.name));
            if let Some(found) = rows::offending(db, &source, &condition, shown)? {
                let hint = if before.column(&column.name).is_some() {
                    "fill them first"
                } else {
                    "give it a DEFAULT, or leave NOT NULL out"
                };
                self.refuse(
                    format!("column {name}.{} is NOT NULL, but rows have no value for it: {hint}", column.name),
                    Some(found),
                );
            }
        }
        let unique = diff
            .indexes_added
            .iter()
            .filter(|index| index.unique)
            .map(|index| (format!("unique index {}", index.name), &index.columns));
        let odd = self
            .live
            .odd_indexes
            .keys()
            .filter_map(|index| table.indexes.iter().find(|one| one.name == *index && one.unique));
        let odd = odd.map(|index| (format!("unique index {}", index.name), &index.columns));
        let moved = diff.primary_key || self.live.odd_tables.contains_key(self.old.table(name));
        let key = moved.then(|| ("the primary key".to_owned(), &table.primary_key));
        for (what, columns) in unique.chain(odd).chain(key).collect::<Vec<_>>() {
            if let Some(found) = rows::doubled(db, &source, table, columns)? {
                let values = format!("values of ({}) stand more than once", columns.join(", "));
                self.refuse(
                    format!("{what} of table {name} cannot hold: {values}; change or delete rows first"),
                    Some(found),
                );
            }
        }
        for check in &diff.checks_added {
            let shown = rows::shown(
                table,
                &table
                    .columns
                    .iter()
                    .map(|column| column.name.clone())
                    .filter(|column| check.sql.contains(&quote(column)))
                    .collect::<Vec<_>>(),
            );
            if let Some(found) = rows::offending(db, &source, &format!("NOT ({})", check.sql), shown)? {
                self.refuse(
                    format!(
                        "CHECK ({}) of table {name} does not hold for rows that are there: change them first",
                        check.sql
                    ),
                    Some(found),
                );
            }
        }
        self.check_foreign_keys(table, diff, &source)
    }

    fn check_foreign_keys(&mut self, table: &Table, diff: &TableDiff, source: &str) -> Result<(), SchemaError> {
        for key in &diff.keys_added {
            let column = |name: &String| format!("\"_row\".{}", quote(name));
            let mut condition: Vec<String> =
                key.columns.iter().map(|name| format!("{} IS NOT NULL", column(name))).collect();
            if let (Some(before), Some(parent)) = (self.base.tables.get(&key.table), self.wanted.tables.get(&key.table))
            {
                let tenant = if key.shared { None } else { Some(super::TENANT.to_owned()) };
                let here = tenant.iter().chain(&key.columns);
                let there = tenant.iter().chain(&key.references);
                let same: Vec<String> = here
                    .zip(there)
                    .map(|(here, there)| format!("{} = \"_parent\".{}", column(here), quote(there)))
                    .collect();
                let parents = rows::future(self.dialect(), before, parent, Some(&self.old));
                condition.push(format!(
                    "NOT EXISTS (SELECT 1 FROM ({parents}) AS \"_parent\" WHERE {})",
                    same.join(" AND ")
                ));
            }
            let shown = rows::shown(table, &key.columns);
            if let Some(found) = rows::offending(self.db, source, &condition.join(" AND "), shown)? {
                let message = format!(
                    "rows of table {} refer to rows of {} that are not there ({}): change or delete them first",
                    table.name,
                    key.table,
                    key.columns.join(", ")
                );
                self.refuse(message, Some(found));
            }
        }
        Ok(())
    }

    /// How many rows a table has, in words; `name` is its name after the renames.
    fn count(&self, name: &str) -> Result<String, SchemaError> {
        let sql = format!("SELECT count(*) FROM {}", quote(self.old.table(name)));
        let count = number(self.db, &sql)?;
        Ok(if count == 1 { "1 row".to_owned() } else { format!("{count} rows") })
    }

    fn finish(mut self, drift: Vec<String>, allowed: &[String]) -> Plan {
        let phases = self.phases;
        let keys = self.db.dialect().late_keys(self.wanted, &phases.made);
        let steps =
            [phases.others, phases.renames, phases.drops, phases.tables, phases.columns, phases.indexes, keys].concat();
        for step in &steps {
            for name in step.destructive.iter().filter(|name| !allowed.contains(name)) {
                let message = format!("{}: this can lose data; to allow it, add --allow-destructive {name}", step.why);
                self.refusals.push(Refusal { message, allow: Some(name.clone()), offending: None });
            }
        }
        Plan { steps, refusals: self.refusals, drift }
    }
}
