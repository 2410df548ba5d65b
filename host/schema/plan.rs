//! The steps from what is in a database to what `schema.sql` wants.

use std::collections::BTreeSet;

use serde::Serialize;

use super::database::{Database, Dialect, number};
use super::ddl::{key_columns, quote, quoted};
use super::diff::TableDiff;
use super::inspect::Live;
use super::reasons::{BY_HAND, drift, new_or_gone};
use super::record;
use super::rename::{self, OldNames, Unclear};
use super::rows::{self, Offending};
use super::{HOST_PREFIX, Index, Schema, SchemaError, Table};

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
    let recorded = record::read(db)?;
    let drift = drift(recorded.as_ref(), &live, wanted);
    let mut base = live.schema.clone();
    let renamed = rename::apply(db.dialect(), &mut base, wanted);
    let base = base.normal();
    let recorded = recorded.and_then(|record| record.schema).map(|mut schema| {
        rename::apply(db.dialect(), &mut schema, wanted);
        schema.normal()
    });
    let mut planner = Planner {
        db,
        live: &live,
        base: &base,
        recorded: recorded.as_ref(),
        wanted,
        old: renamed.old,
        unclear: &renamed.unclear,
        phases: Phases { renames: renamed.steps, ..Phases::default() },
        refusals: Vec::new(),
    };
    planner.check_renames();
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

/// Names that `--allow-destructive` may list: those of tables, columns, triggers and views that are in the database, in
/// `wanted`, or in what was ever applied.
///
/// # Errors
/// When the database cannot be read.
pub fn names(db: &dyn Database, wanted: &Schema) -> Result<BTreeSet<String>, SchemaError> {
    let live = db.inspect()?;
    let mut names: BTreeSet<String> = live.others.into_iter().map(|(_, name)| name).collect();
    for schema in record::all(db)?.iter().chain([&live.schema, wanted]) {
        for table in schema.tables.values() {
            names.extend(table.columns.iter().map(|column| format!("{}.{}", table.name, column.name)));
            names.insert(table.name.clone());
        }
    }
    Ok(names)
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

pub(super) struct Planner<'a> {
    db: &'a dyn Database,
    live: &'a Live,
    /// The database as it is after the renames, in normal form.
    pub(super) base: &'a Schema,
    /// What was applied last, likewise; `None` where nobody knows.
    pub(super) recorded: Option<&'a Schema>,
    pub(super) wanted: &'a Schema,
    old: OldNames,
    pub(super) unclear: &'a [Unclear],
    phases: Phases,
    pub(super) refusals: Vec<Refusal>,
}

impl Planner<'_> {
    fn dialect(&self) -> Dialect {
        self.db.dialect()
    }

    fn refuse(&mut self, message: String, offending: Option<Offending>) {
        self.refusals.push(Refusal { message, allow: None, offending });
    }

    fn drop_table(&mut self, table: &Table) -> Result<(), SchemaError> {
        let (rows, name) = (self.count(&table.name)?, &table.name);
        let made = self.recorded.is_some() && self.recorded(name).is_none();
        let what = if made { "was made by hand" } else { "is not in schema.sql" };
        let otherwise = || format!("if it has a new name there, write -- was: {name} above that");
        let why = format!("table {name} ({rows}) {what}; {}", self.misplaced(None, name).unwrap_or_else(otherwise));
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
        let what = new_or_gone(self.recorded(&table.name).is_some());
        let why = format!("table {} {what}{}", table.name, self.without_old(&table.name, None));
        self.phases.tables.push(Step::new(why, sql));
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
                    let known = self.recorded(&table.name).is_none_or(|known| known.indexes.contains(index));
                    let what = if known { "is not so in schema.sql" } else { "was made or changed by hand" };
                    format!("index {} {what}", index.name)
                }
                None => continue,
            };
            self.phases.drops.push(Step::new(why, vec![format!("DROP INDEX {}", quote(&index.name))]));
        }
        if rebuild {
            self.rebuild(before, table, &diff, odd);
        } else {
            for column in table.columns.iter().filter(|column| before.column(&column.name).is_none()) {
                let known = self.recorded(&table.name).is_some_and(|known| known.column(&column.name).is_some());
                let (what, more) = (new_or_gone(known), self.without_old(&table.name, Some(&column.name)));
                let why = format!("column {} of table {} {what}{more}", column.name, table.name);
                self.phases.columns.push(Step::new(why, vec![self.dialect().add_column(table, column)]));
            }
        }
        for index in &table.indexes {
            let added = diff.indexes_added.iter().any(|added| added.name == index.name)
                || self.live.odd_indexes.contains_key(&index.name);
            if added || rebuild {
                let same =
                    |one: &Index| one.name == index.name && one.columns == index.columns && one.unique == index.unique;
                let known = self.recorded(&table.name).is_some_and(|known| known.indexes.iter().any(same));
                let why = if added { new_or_gone(known) } else { "goes with its table" };
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
        let mut reasons = self.reasons(table, diff);
        reasons.extend(odd.into_iter().map(|what| what + BY_HAND));
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
                    format!(
                        "values of column {name}.{} have no counterpart in {two} that says exactly the same: change them first",
                        to.name
                    ),
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
                let times = matches!(column.name.as_str(), "created_at" | "updated_at");
                let hint = if before.column(&column.name).is_some() {
                    "fill them first".to_owned()
                } else if times {
                    format!(
                        "the host fills it in rows to come; say what these rows are to have, for example {} TIMESTAMP NOT NULL \
                         DEFAULT '2000-01-01T00:00:00Z', or leave NOT NULL out",
                        column.name
                    )
                } else {
                    "give it a DEFAULT, or leave NOT NULL out".to_owned()
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
