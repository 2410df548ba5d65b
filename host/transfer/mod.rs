//! `store copy`: all data of a plugin, moved from one database to another.
//!
//! Before the first row is read the source is marked, so that no host uses it any more; the target is marked from its
//! first moment until all of it was compared. A copy that was killed goes on behind the last row that the target
//! has: rows go over in the order of their keys, and nobody else writes on either side. At the end both sides are
//! read whole, and their counts and hashes have to be the same; only then does the target lose its mark.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::clock::Clock;
use crate::codec::time::shown;
use crate::ids::Ids;
use crate::schema::{Schema, SchemaError};
use crate::store::moving::{self, Found, HOST, Mark, Role, Shape};
use crate::store::{Database, Shared, StoreError, tables};

mod rows;
mod shapes;

use rows::Sum;

/// What is to be moved where.
#[derive(Debug)]
pub struct Copy {
    /// A plugin's id, or [`HOST`] for what belongs to no plugin.
    pub plugin: String,
    pub from: Database,
    pub to: Database,
}

/// Why a copy did not come to its end: one sentence with the way out.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct CopyError(pub String);

impl From<StoreError> for CopyError {
    fn from(error: StoreError) -> Self {
        Self(error.to_string())
    }
}

impl From<SchemaError> for CopyError {
    fn from(error: SchemaError) -> Self {
        Self(error.to_string())
    }
}

/// How far a copy is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    pub table: String,
    pub checking: bool,
    /// Rows: each counts once as it is copied and once as it is compared.
    pub done: u64,
    pub total: u64,
}

/// What was copied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    pub plugin: String,
    pub from: String,
    pub to: String,
    /// It had ended before: nothing was done now, and no table is listed.
    pub already: bool,
    /// When it ended; ISO 8601, UTC.
    pub ended_at: String,
    pub tables: Vec<Compared>,
}

/// A table that is the same on both sides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Compared {
    pub table: String,
    pub rows: u64,
    /// Of all values, whatever the database and the order of the rows; hex.
    pub hash: String,
}

/// How a copy begins.
enum Start {
    Ended(Mark),
    /// Goes on, or begins with the making of the target, where that is not there yet.
    GoesOn(Mark),
    Anew,
}

impl Copy {
    /// Copies, or goes on where a copy was broken off. The caller holds the lock of the data folder.
    ///
    /// # Errors
    /// Where a host runs on a server that data are taken from, the target holds other data, or a database fails. What was
    /// begun can then be run again.
    pub fn run(&self, clock: &dyn Clock, ids: &dyn Ids, tell: &mut dyn FnMut(Progress)) -> Result<Report, CopyError> {
        let (source, target) = (moving::peek(&self.from, false)?, moving::peek(&self.to, true)?);
        let mark = match self.start(&source, &target)? {
            Start::Ended(mark) => return Ok(self.report(true, mark.at, Vec::new())),
            Start::GoesOn(mark) => mark,
            Start::Anew => {
                let now = clock.now();
                Mark {
                    id: ids.rising(now).to_string(),
                    role: Role::Source,
                    done: false,
                    other: self.to.place(),
                    at: now,
                }
            }
        };
        self.nobody_runs(&self.from)?;
        let from = moving::open(&self.from, &self.plugin)?;
        // What cannot be copied is found before anything is marked.
        let schema = self.schema(&from)?;
        let fresh = target.mark.is_none();
        if fresh {
            self.make_room(&target)?;
            if source.mark.is_none() {
                from.transact(|tx| moving::add_mark(tx, &mark))?;
            }
            crate::crash_point!("copy-source-marked");
        }
        let prepared = self.nobody_runs(&self.from).and_then(|()| self.prepare(&mark, fresh));
        let to = prepared.inspect_err(|_| {
            // The target could not be made: the source is as it was.
            if source.mark.is_none() && from.transact(moving::remove_mark).is_err() {
                tracing::warn!("{} stays marked; --abandon takes the mark away", self.from.place());
            }
        })?;
        let compared = self.through(&from, &to, &schema, tell)?;
        let ended = clock.now();
        let done = Mark { done: true, at: ended, ..mark };
        from.transact(|tx| moving::change_mark(tx, &done))?;
        crate::crash_point!("copy-source-done");
        to.transact(moving::remove_mark)?;
        Ok(self.report(false, ended, compared))
    }

    /// Gives up a copy that has not ended: what was copied goes, and the source can be used again.
    ///
    /// # Errors
    /// Where there is none, it has ended, or a database fails.
    pub fn abandon(&self) -> Result<(), CopyError> {
        let source = moving::peek(&self.from, false)?;
        let Some(mark) = source.mark.filter(|mark| mark.role == Role::Source && !mark.done) else {
            let from = self.from.place();
            return Err(CopyError(format!(
                "no copy of {} from {from} is under way; there is nothing to give up",
                self.plugin
            )));
        };
        let ours = |other: &Mark| other.role == Role::Target && other.id == mark.id;
        let target = moving::peek(&self.to, false)?;
        if target.mark.as_ref().is_some_and(ours) {
            moving::remove(&self.to)?;
        } else if mark.other != self.to.place() {
            return Err(CopyError(format!("{} are being copied to {}: name that with --to", self.plugin, mark.other)));
        }
        Ok(moving::open(&self.from, &self.plugin)?.transact(moving::remove_mark)?)
    }

    fn start(&self, source: &Found, target: &Found) -> Result<Start, CopyError> {
        let Self { plugin, from, to } = self;
        let (here, there) = (from.place(), to.place());
        let refuse = |text: String| Err(CopyError(text));
        if here == there {
            return refuse(format!("{plugin} is copied from {here} to the same place; name another with --to"));
        }
        if !source.exists || !source.is_ours {
            return refuse(format!("there are no data of {plugin} in {here}; name the place they are in with --from"));
        }
        let goes_on = |mark: &Mark| {
            let ours = |other: &Mark| other.role == Role::Target && other.id == mark.id;
            match &target.mark {
                Some(other) => ours(other),
                None => !mark.done && mark.other == there && target.filled.is_none(),
            }
        };
        match &source.mark {
            Some(mark) if mark.role == Role::Source && goes_on(mark) => return Ok(Start::GoesOn(mark.clone())),
            Some(mark) if mark.role == Role::Source && mark.done && mark.other == there && target.mark.is_none() => {
                return Ok(Start::Ended(mark.clone()));
            }
            Some(mark) => return refuse(mark.refusal(plugin)),
            None => {}
        }
        let way = match to {
            Database::Sqlite(path) => {
                format!(
                    "if nothing in it is wanted, move {} away (with its -wal and -shm) and run this again",
                    path.display()
                )
            }
            Database::Postgres(_, schema) => {
                format!(
                    "if nothing in it is wanted, run DROP SCHEMA \"{schema}\" CASCADE in that database, and then this again"
                )
            }
        };
        match (&target.mark, &target.filled) {
            (Some(Mark { role: Role::Target, other, .. }), _) => refuse(format!(
                "{there} holds a part of a copy from {other} that has not ended: run that again, or give it up with --abandon"
            )),
            (Some(Mark { other, .. }), _) => {
                refuse(format!("{there} holds data of {plugin} that were copied from it to {other}; {way}"))
            }
            (None, Some(table)) => refuse(format!("{there} holds other data: there are rows in {table}; {way}")),
            (None, None) if target.exists && !target.is_ours && matches!(to, Database::Sqlite(_)) => {
                refuse(format!("{there} is no database of a host; {way}"))
            }
            (None, None) => Ok(Start::Anew),
        }
    }

    /// Refuses while hosts are connected to the database.
    fn nobody_runs(&self, database: &Database) -> Result<(), CopyError> {
        let hosts = moving::hosts(database)?;
        if hosts.is_empty() {
            return Ok(());
        }
        let place = database.server_place().unwrap_or_default();
        Err(CopyError(format!(
            "hosts, or other commands of oncehost, are connected to {place} (from {}): stop all hosts that use it, and run \
             this again",
            hosts.join(", ")
        )))
    }

    /// Removes what is there without a row in it, such as the tables that a host made at its start.
    fn make_room(&self, target: &Found) -> Result<(), CopyError> {
        if target.exists && target.is_ours {
            self.nobody_runs(&self.to)?;
            moving::remove(&self.to)?;
        }
        Ok(())
    }

    fn prepare(&self, mark: &Mark, fresh: bool) -> Result<Shared, CopyError> {
        let to = moving::open(&self.to, &self.plugin)?;
        if fresh {
            let own = Mark { role: Role::Target, other: self.from.place(), ..mark.clone() };
            to.transact(|tx| moving::add_mark(tx, &own))?;
            crate::crash_point!("copy-target-marked");
        }
        Ok(to)
    }

    /// The plugin's own tables, if the host knows everything about them.
    fn schema(&self, from: &Shared) -> Result<Schema, CopyError> {
        if self.plugin == HOST {
            return Ok(Schema::default());
        }
        let live = tables::live(from)?;
        let odd = live.oddities();
        if odd.is_empty() {
            return Ok(live.schema);
        }
        Err(CopyError(format!(
            "{} has things that were made by hand, and the host cannot make them elsewhere ({}); bring the tables to schema.sql \
             with `oncehost schema apply {}` first",
            self.from.place(),
            odd.join("; "),
            self.plugin
        )))
    }

    /// Copies everything that is not there yet, and compares all of it.
    fn through(
        &self,
        from: &Shared,
        to: &Shared,
        schema: &Schema,
        tell: &mut dyn FnMut(Progress),
    ) -> Result<Vec<Compared>, CopyError> {
        if self.plugin != HOST && tables::live(to)?.schema.tables.is_empty() {
            tables::make(to, schema)?;
        }
        let shapes = shapes::all(&self.plugin, from, to, schema)?;
        let mut sizes = BTreeMap::new();
        for shape in &shapes {
            sizes.insert(shape.name.as_str(), from.look(|tx| moving::count(tx, shape))?);
        }
        let total = sizes.values().sum::<u64>().saturating_mul(2);
        let mut done = 0;
        let mut say = |shape: &Shape, checking: bool, more: u64| {
            done += more;
            tell(Progress { table: shape.name.clone(), checking, done, total });
        };
        for shape in &shapes {
            rows::copy(from, to, shape, &mut |more| say(shape, false, more))?;
        }
        if self.plugin != HOST {
            tables::tie(to, schema)?;
        }
        let mut compared = Vec::new();
        for shape in &shapes {
            let theirs = rows::sum(to, shape, &mut |more| say(shape, true, more))?;
            let ours = rows::sum(from, shape, &mut |_| {})?;
            compared.push(self.same(shape, &ours, &theirs)?);
        }
        for shape in &shapes {
            go_on_counting(from, to, shape)?;
        }
        Ok(compared)
    }

    fn same(&self, shape: &Shape, ours: &Sum, theirs: &Sum) -> Result<Compared, CopyError> {
        let table = shape.name.clone();
        if ours == theirs {
            return Ok(Compared { table, rows: ours.rows, hash: ours.hash() });
        }
        Err(CopyError(format!(
            "the copy of table {table} is not the same: {} rows with hash {} in {}, {} rows with hash {} in {}; nothing uses the \
             copy. Give it up with --abandon, and begin anew",
            ours.rows,
            ours.hash(),
            self.from.place(),
            theirs.rows,
            theirs.hash(),
            self.to.place()
        )))
    }

    fn report(&self, already: bool, ended: i64, tables: Vec<Compared>) -> Report {
        let (from, to) = (self.from.place(), self.to.place());
        Report { plugin: self.plugin.clone(), from, to, already, ended_at: shown(ended), tables }
    }
}

/// Has a table that numbers its rows go on above all numbers that were ever given.
fn go_on_counting(from: &Shared, to: &Shared, shape: &Shape) -> Result<(), StoreError> {
    let Some(column) = &shape.numbered else { return Ok(()) };
    let highest = from.look(|tx| moving::highest(tx, &shape.name, column))?;
    to.transact(|tx| moving::count_from(tx, &shape.name, column, highest.unwrap_or(0)))
}
