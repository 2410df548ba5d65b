//! Why a plan has its steps: what `schema.sql` wants, told apart from what was changed by other hands since it was
//! applied last, and what its `-- was:` comments do not say.

use super::diff::{self, TableDiff};
use super::inspect::Live;
use super::plan::{Planner, Refusal};
use super::record::Record;
use super::rename::Unclear;
use super::{Schema, Table, did_you_mean};

/// How the database differs from what was applied last.
pub(super) fn drift(recorded: Option<&Record>, live: &Live, wanted: &Schema) -> Vec<String> {
    let mut drift: Vec<String> = match recorded {
        Some(record) => record.schema.as_ref().map_or_else(Vec::new, |applied| {
            let wanted = diff::words(applied, wanted);
            let as_wanted = |what: String| if wanted.contains(&what) { format!("{what}{AS_WANTED}") } else { what };
            diff::words(applied, &live.schema).into_iter().map(as_wanted).collect()
        }),
        None => live.schema.tables.keys().map(|name| format!("table {name} was not made by schema apply")).collect(),
    };
    for (table, odd) in &live.odd_tables {
        drift.extend(odd.iter().map(|what| format!("table {table}: {what}")));
    }
    drift.extend(live.odd_indexes.iter().map(|(index, what)| format!("index {index}: {what}")));
    drift.extend(live.others.iter().map(|(kind, name)| format!("{kind} {name} is new")));
    drift
}

/// Ends what somebody changed in the database as `schema.sql` has it now.
const AS_WANTED: &str = ", as schema.sql has it now";

/// Ends what a step takes back.
pub(super) const BY_HAND: &str = " (this was changed by hand)";

/// What a step says that makes something; `known`: it was applied before, so it is missing by other hands.
pub(super) fn new_or_gone(known: bool) -> &'static str {
    if known { "was taken out by hand" } else { "is new" }
}

impl Planner<'_> {
    /// Refuses a `-- was:` with a name that is not there while something else would go: most likely that was meant.
    pub(super) fn check_renames(&mut self) {
        for unclear in self.unclear.iter().filter(|unclear| !unclear.both) {
            let table = &unclear.table;
            let (gone, what) = match (&unclear.column, self.base.tables.get(table), self.wanted.tables.get(table)) {
                (Some(_), Some(before), Some(now)) => {
                    let names = before.columns.iter().map(|column| column.name.as_str());
                    let gone: Vec<&str> = names.filter(|name| now.column(name).is_none()).collect();
                    (gone, format!("the database has no column {} in table {table}", unclear.was))
                }
                (Some(_), _, _) => continue,
                (None, _, _) => {
                    let names = self.base.tables.keys().map(String::as_str);
                    let gone = names.filter(|name| !self.wanted.tables.contains_key(*name)).collect();
                    (gone, format!("the database has no table {}", unclear.was))
                }
            };
            if !gone.is_empty() {
                let hint = did_you_mean(&unclear.was, gone.into_iter());
                let (line, was) = (unclear.line, &unclear.was);
                let message = format!(
                    "schema.sql:{line}: -- was: {was}: {what}{hint}; write the name that it has there, or delete the comment"
                );
                self.refusals.push(Refusal { message, allow: None, offending: None });
            }
        }
    }

    /// The comment that says `was`, where the name beside it is taken already.
    pub(super) fn misplaced(&self, table: Option<&str>, was: &str) -> Option<String> {
        let fits = |one: &&Unclear| {
            one.both
                && one.was == was
                && table.is_none_or(|table| table == one.table)
                && one.column.is_some() == table.is_some()
        };
        self.unclear.iter().find(fits).map(|one| {
            format!(
                "-- was: {was} in line {} of schema.sql stands at {}, which the database has already: if another one is meant, \
                 write it on that one's line",
                one.line,
                one.now()
            )
        })
    }

    /// Says of a new table or column that there is nothing by the old name that `schema.sql` gives it.
    pub(super) fn without_old(&self, table: &str, column: Option<&str>) -> String {
        let fits = |one: &&Unclear| !one.both && one.table == table && one.column.as_deref() == column;
        self.unclear.iter().find(fits).map_or_else(String::new, |one| {
            format!(", and takes over nothing: the database has no {} that -- was: could mean", one.was)
        })
    }

    /// What was applied last of a table.
    pub(super) fn recorded(&self, table: &str) -> Option<&Table> {
        self.recorded?.tables.get(table)
    }

    /// Why a table is made anew, each reason with whether it is a change by hand that is taken back.
    pub(super) fn reasons(&self, table: &Table, diff: &TableDiff) -> Vec<String> {
        let now = Schema { tables: [(table.name.clone(), table.clone())].into() }.normal();
        let pending: Option<Vec<String>> = self
            .recorded(&table.name)
            .zip(now.tables.get(&table.name))
            .map(|(recorded, now)| TableDiff::new(recorded, now).definition());
        let mark = |what: String| match &pending {
            Some(pending) if !pending.contains(&what) => what + BY_HAND,
            Some(_) | None => what,
        };
        let mut reasons: Vec<String> = diff.definition().into_iter().map(mark).collect();
        let mut left = diff.columns_added.clone();
        for gone in &diff.columns_dropped {
            if let Some(misplaced) = self.misplaced(Some(&table.name), &gone.name) {
                reasons.push(misplaced);
            } else if let Some(at) = left.iter().position(|added| added.ty == gone.ty) {
                let (gone, added) = (&gone.name, &left.remove(at).name);
                reasons.push(format!("if {gone} is called {added} now, write -- was: {gone} on the line of {added}"));
            }
        }
        for added in &diff.columns_added {
            let nothing = self.without_old(&table.name, Some(&added.name));
            reasons.extend((!nothing.is_empty()).then(|| format!("column {}{nothing}", added.name)));
        }
        reasons
    }
}
