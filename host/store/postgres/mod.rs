//! Postgres: a schema per plugin, and an invocation is one serializable transaction on a connection from the pool.
//!
//! What is written behind the script's back (events, the key's record) goes out with the COMMIT, and so do new rows, which
//! are guessed to be new, so that a small invocation costs few round trips. No statement is guarded by a
//! savepoint at first; when one fails, the whole invocation runs again with savepoints, so that a failed call leaves the
//! transaction usable. The same way back serves serialization failures and connections that are gone.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use deadpool_postgres::Object;
use tokio_postgres::Row;

use super::{Access, Fate, StoreError};
use crate::clock::Millis;
use crate::ids;
use crate::query::Cell;

mod alone;
mod cells;
mod claims;
mod commit;
pub mod deliveries;
mod errors;
mod group;
mod health;
pub mod host_db;
mod in_use;
pub mod keys;
pub mod moving;
mod notices;
pub mod outbox;
mod own;
mod ready;
pub mod records;
mod run;
pub mod schedules;
mod server;
pub mod steps;
pub mod tables;
pub mod workflows;

pub use alone::Alone;
pub use claims::{claim, look as look_at_claim};
pub use health::{Health, look};
pub use server::{Limits, Server, check_url};

/// Statements with more parameters are not worth a place in the cache: their text depends on a list's length.
const CACHED_PARAMS: usize = 64;

/// How long past a run's end its last query may take to be stopped.
const GRACE: Duration = Duration::from_millis(200);

/// Tries of a transaction that only reads, after which it waits for a moment at which it can run into nobody.
const BESIDE: u32 = 12;

/// What lets go of the locks of keys, when their transaction has ended.
const UNLOCK: &str = "SELECT pg_advisory_unlock_all()";

/// A number for an advisory lock.
pub(super) fn number_of(parts: &[&str]) -> i64 {
    let mut first = [0; 8];
    first.copy_from_slice(&ids::digest(parts)[..8]);
    i64::from_be_bytes(first)
}

/// One thread's way to a plugin's schema, with the connection of the transaction that is open now. A run can be
/// parted from it.
pub struct Shared {
    server: Arc<Server>,
    plugin: String,
    access: Access,
    slot: Mutex<Slot>,
    generation: AtomicU64,
    /// How many more guesses of each kind are not made, since one was wrong.
    wary: [AtomicU32; 2],
}

/// How many that are.
const WARY: u32 = 100;

/// Statements of one invocation that are guessed, and bytes of them.
const KEPT_BACK: usize = 24;
const KEPT_BACK_BYTES: usize = 1 << 20;

/// The transaction of the moment.
#[derive(Default)]
struct Slot {
    client: Option<Object>,
    stage: Stage,
    /// How many tries there were before.
    tries: u32,
    /// Statements are guarded by savepoints, and nothing waits for the COMMIT whose outcome matters.
    careful: bool,
    /// It sees what others commit meanwhile, and runs into none of them.
    loose: bool,
    /// Nothing is guessed.
    sober: bool,
    /// The version of the tables that is assumed, and that was seen under the lock of those who use them.
    assumed: Option<i64>,
    entered: Option<i64>,
    /// Where several invocations share it.
    group: Option<group::Group>,
    /// Whether a statement was waited for.
    talked: bool,
    /// What goes out with the COMMIT.
    pending: Vec<Deferred>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// None is open.
    #[default]
    Idle,
    /// One begins with the next statement.
    Wanted,
    Open,
    /// It is lost, and has to run again.
    Again,
    /// It is lost.
    Over,
    /// It is lost, since the database was away, or too slow.
    Away,
    /// It is lost, since the database refused to commit it.
    Refused,
}

/// A statement whose outcome is known before it runs.
struct Deferred {
    text: String,
    params: Vec<Cell>,
    /// It is not known, but told already. Where it turns out otherwise, the statement fails and everything runs again.
    guess: Option<Guess>,
}

/// What is told before it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Guess {
    /// That there is no such row yet.
    Row,
    /// That there is no such event yet.
    Event,
}

/// What a statement gave.
enum Gave {
    Rows(Vec<Row>),
    Changed(u64),
}

/// How a statement is meant.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Want {
    Rows,
    Changed,
}

impl Shared {
    /// A way to the schema of `plugin`, in which the host's own tables are made first where they are not there yet.
    ///
    /// # Errors
    /// When the database cannot be reached, was written by a newer version, or belongs to others.
    pub fn open(server: &Arc<Server>, plugin: &str, access: Access) -> Result<Arc<Self>, StoreError> {
        server.wait(server.make_ready(plugin))?;
        match claims::claim(server, plugin)? {
            Some(refusal) => Err(StoreError::Unavailable(refusal)),
            None => Ok(Arc::new(Self::as_is(server, plugin, access))),
        }
    }

    /// The same without making anything.
    fn as_is(server: &Arc<Server>, plugin: &str, access: Access) -> Self {
        let (slot, generation, wary) = (Mutex::default(), AtomicU64::new(0), <[AtomicU32; 2]>::default());
        Self { server: server.clone(), plugin: plugin.to_owned(), access, slot, generation, wary }
    }

    fn lock(&self) -> MutexGuard<'_, Slot> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wary(&self, guess: Guess) -> &AtomicU32 {
        let [rows, events] = &self.wary;
        match guess {
            Guess::Row => rows,
            Guess::Event => events,
        }
    }

    /// Whether a guess of this kind was wrong of late; counts one more.
    fn is_wary(&self, guess: Guess) -> bool {
        let less = |left: u32| left.checked_sub(1);
        self.wary(guess).fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }

    /// Keeps the connection from every holder; `None` while a host call uses it.
    pub fn try_hold(&self) -> Option<Hold<'_>> {
        let slot = match self.slot.try_lock() {
            Ok(slot) => slot,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(Hold { slot, generation: &self.generation })
    }

    /// The name of one of the host's tables, with the plugin's schema.
    fn table(&self, name: &str) -> String {
        format!("\"{}\".{name}", self.plugin)
    }
}

/// The way to a schema, while no host call uses it.
pub struct Hold<'a> {
    slot: MutexGuard<'a, Slot>,
    generation: &'a AtomicU64,
}

impl Hold<'_> {
    /// Parts every present holder from the connection; closing it undoes what its transaction did.
    pub fn part(mut self) {
        self.generation.fetch_add(1, Ordering::SeqCst);
        self.slot.close();
        *self.slot = Slot::default();
    }
}

impl Slot {
    /// Whether it has run into others often enough.
    fn is_patient(&self) -> bool {
        self.tries >= BESIDE
    }

    /// Gives the connection up, with whatever is open in it.
    fn close(&mut self) {
        if let Some(client) = self.client.take() {
            // Out of the pool: nobody else may get it.
            drop(Object::take(client));
        }
        self.pending.clear();
    }
}

/// A script's hold on the transaction it runs in.
#[derive(Clone)]
pub struct Tx {
    shared: Arc<Shared>,
    generation: u64,
    until: Option<Instant>,
}

impl Tx {
    /// A hold on the transaction that `shared` is in now.
    pub fn new(shared: &Arc<Shared>) -> Self {
        let generation = shared.generation.load(Ordering::SeqCst);
        Self { shared: shared.clone(), generation, until: None }
    }

    /// Begins a transaction, and holds it. `again`: it is the next try of the last one.
    pub fn begin(shared: &Arc<Shared>, again: bool) -> Self {
        let mut slot = shared.lock();
        slot.close();
        let (careful, sober) = (again && slot.careful, again && slot.sober);
        let tries = if again { slot.tries.saturating_add(1) } else { 0 };
        *slot = Slot { stage: Stage::Wanted, tries, careful, sober, ..Slot::default() };
        drop(slot);
        Self::new(shared)
    }

    /// Has the transaction that is about to begin see what others commit meanwhile.
    pub fn loosen(&self) {
        self.shared.lock().loose = true;
    }

    /// Guards each statement from the first try on.
    #[cfg(test)]
    pub(crate) fn be_careful(&self) {
        self.shared.lock().careful = true;
    }

    /// Begins a transaction for this hold, on a connection that only reads.
    ///
    /// # Errors
    /// When the connection was taken away.
    pub fn begin_read(&self, again: bool) -> Result<(), StoreError> {
        if !self.is_current() {
            return Err(gone());
        }
        Self::begin(&self.shared, again);
        Ok(())
    }

    /// The same hold, whose queries are stopped at `until`.
    #[must_use]
    pub fn until(&self, until: Instant) -> Self {
        Self { until: Some(until), ..self.clone() }
    }

    /// The same hold without an end.
    fn patient(&self) -> Self {
        Self { until: None, ..self.clone() }
    }

    fn is_current(&self) -> bool {
        self.generation == self.shared.generation.load(Ordering::SeqCst)
    }

    /// What became of the transaction so far.
    pub fn fate(&self) -> Fate {
        let slot = self.shared.lock();
        if !self.is_current() {
            return Fate::Parted;
        }
        match slot.stage {
            Stage::Wanted | Stage::Open => Fate::Open,
            Stage::Again => Fate::Again,
            Stage::Away => Fate::Away,
            Stage::Refused => Fate::Refused,
            Stage::Idle | Stage::Over => Fate::Ended,
        }
    }

    /// Does `work`, at most until the run's end.
    fn wait<R>(&self, work: impl Future<Output = R>) -> Result<R, tokio::time::error::Elapsed> {
        let latest = Instant::now() + self.shared.server.answer() + GRACE;
        let until = self.until.map_or(latest, |until| latest.min(until + GRACE));
        self.shared.server.wait(async { tokio::time::timeout_at(until.into(), work).await })
    }

    fn begin_text(&self, slot: &Slot) -> &'static str {
        match self.shared.access {
            Access::Write if slot.loose => "BEGIN ISOLATION LEVEL READ COMMITTED",
            Access::Write => "BEGIN ISOLATION LEVEL SERIALIZABLE",
            Access::Read if slot.is_patient() => "BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE",
            Access::Read => "BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY",
        }
    }

    /// The slot, if this hold may still use it.
    fn slot(&self) -> Result<MutexGuard<'_, Slot>, StoreError> {
        let slot = self.shared.lock();
        if self.is_current() && matches!(slot.stage, Stage::Wanted | Stage::Open) {
            return Ok(slot);
        }
        Err(gone())
    }

    /// Undoes the transaction. What was lost before stays lost.
    pub fn undo(&self) {
        let mut slot = self.shared.lock();
        if !self.is_current() {
            return;
        }
        match slot.stage {
            // What comes now, such as the note that a step failed, is a transaction of its own.
            Stage::Open => {
                self.release(&mut slot);
                slot.stage = Stage::Wanted;
            }
            Stage::Wanted => slot.pending.clear(),
            Stage::Idle | Stage::Again | Stage::Over | Stage::Away | Stage::Refused => {}
        }
    }

    /// Keeps a statement for the COMMIT, whose outcome must be known.
    fn defer(&self, text: String, params: Vec<Cell>) -> Result<(), StoreError> {
        self.slot()?.pending.push(Deferred { text, params, guess: None });
        Ok(())
    }

    /// Keeps a statement for the COMMIT, or for the next one that would see what it does, as if its outcome were known.
    /// It must fail where that is another one. Gives whether it was kept.
    fn guess(&self, guess: Guess, text: impl FnOnce() -> String, params: &[Cell]) -> Result<bool, StoreError> {
        let mut slot = self.slot()?;
        let bytes = |cells: &[Cell]| cells.iter().map(Cell::key_bytes).sum::<usize>();
        let kept = slot.pending.get(slot.kept()..).unwrap_or_default();
        let held = || kept.iter().map(|it| bytes(&it.params)).sum::<usize>();
        if slot.careful || slot.sober || kept.len() >= KEPT_BACK || held() + bytes(params) > KEPT_BACK_BYTES {
            return Ok(false);
        }
        slot.pending.push(Deferred { text: text(), params: params.to_vec(), guess: Some(guess) });
        Ok(true)
    }

    /// Runs a fixed statement that takes no parameters and gives no rows.
    ///
    /// # Errors
    /// When it fails, or the transaction is gone.
    pub fn execute(&self, sql: &str) -> Result<(), StoreError> {
        self.changed(sql, &[]).map(drop)
    }

    /// Runs a statement of the host's own, and gives the number of rows that it changed.
    fn changed(&self, text: &str, params: &[Cell]) -> Result<u64, StoreError> {
        match self.run(text, params, Want::Changed, errors::fault)? {
            Gave::Changed(changed) => Ok(changed),
            Gave::Rows(_) => Ok(0),
        }
    }

    /// Whether this transaction is the only one that clears this plugin's tables; until it ends, others are not.
    fn clears_alone(&self) -> Result<bool, StoreError> {
        let lock = number_of(&["oncehost", "clear", &self.shared.plugin]);
        let locked = self.query("SELECT pg_try_advisory_xact_lock($1)", &[Cell::Integer(lock)])?;
        locked.first().map_or(Ok(false), |row| get::<bool>(row, 0))
    }

    /// Runs a query of the host's own.
    fn query(&self, text: &str, params: &[Cell]) -> Result<Vec<Row>, StoreError> {
        match self.run(text, params, Want::Rows, errors::fault)? {
            Gave::Rows(rows) => Ok(rows),
            Gave::Changed(_) => Ok(Vec::new()),
        }
    }
}

fn gone() -> StoreError {
    StoreError::Gone("the transaction of this invocation is gone; nothing of it is kept".to_owned())
}

/// A cell of a row of the host's own tables.
fn get<'a, T: tokio_postgres::types::FromSql<'a>>(row: &'a Row, at: usize) -> Result<T, StoreError> {
    row.try_get(at).map_err(|error| errors::fault(&error))
}

fn text(text: &str) -> Cell {
    Cell::Text(text.to_owned())
}

fn optional(text: Option<&str>) -> Cell {
    text.map_or(Cell::Null, self::text)
}

fn number(number: impl Into<i64>) -> Cell {
    Cell::Integer(number.into())
}

fn instant(at: Option<Millis>) -> Cell {
    at.map_or(Cell::Null, Cell::Integer)
}

/// For LIMIT.
fn most(limit: usize) -> Cell {
    Cell::Integer(i64::try_from(limit).unwrap_or(i64::MAX))
}

/// How many rows a statement changed.
fn many(changed: u64) -> usize {
    usize::try_from(changed).unwrap_or(usize::MAX)
}

/// A count in a row of the host's own tables.
fn count(row: &Row, at: usize) -> Result<u32, StoreError> {
    get::<i64>(row, at).map(|count| u32::try_from(count).unwrap_or(u32::MAX))
}

/// `$3, $4, $5` for three parameters from the third on.
fn marks(from: usize, number: usize) -> String {
    let marks: Vec<String> = (from..from + number).map(|at| format!("${at}")).collect();
    marks.join(", ")
}

/// Of rows in their order, those up to the one with which their texts pass `bytes`.
fn up_to<T>(found: Vec<T>, bytes: usize, size: impl Fn(&T) -> usize) -> Vec<T> {
    let mut passed = 0;
    let take = |it: &T| {
        let takes = passed <= bytes;
        passed += size(it);
        takes
    };
    found.into_iter().take_while(take).collect()
}
