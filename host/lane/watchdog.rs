//! The last resort against a script that neither ends nor can be interrupted: its transaction is rolled back and
//! taken from it, its caller is told, and a new thread goes on with the others. The stuck thread is left behind;
//! when it wakes up it finds that nothing belongs to it any more.

use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use super::again::Turn;
use super::{Job, lock};
use crate::failure::{Code, Failure};
use crate::metrics::PluginMetrics;
use crate::store::Shared;

/// How long past its limit a run may still take: the script engine's own interrupt comes first.
const GRACE: Duration = Duration::from_millis(500);
/// How often the runs are looked at.
const ROUND: Duration = Duration::from_millis(100);
/// How late a look may be before that is nobody's fault: the process was stopped, or had no processor.
const STOOD: Duration = Duration::from_secs(1);

/// A thread's place of work, as much of it as the watchdog must be able to take away.
pub(super) struct Desk {
    pub shared: Shared,
    /// What has been taken from the queue and is not answered yet.
    pub backlog: Mutex<Vec<Job>>,
    running: Mutex<Option<Running>>,
    pub metrics: Arc<PluginMetrics>,
    /// Of those that ran into others.
    pub turn: Arc<Turn>,
    /// Goes on with the rest of the backlog.
    successor: Box<dyn Fn(Left) + Send + Sync>,
}

/// What a thread leaves that was relieved.
pub(super) struct Left {
    pub jobs: Vec<Job>,
    /// Whose run was given up, and how long it had taken.
    pub tenant: String,
    pub used: Duration,
}

struct Running {
    /// Place in the backlog.
    index: usize,
    began: Instant,
    latest: Instant,
}

impl Desk {
    pub fn new(
        shared: Shared,
        metrics: Arc<PluginMetrics>,
        turn: Arc<Turn>,
        successor: impl Fn(Left) + Send + Sync + 'static,
    ) -> Arc<Self> {
        let (backlog, running) = (Mutex::default(), Mutex::default());
        Arc::new(Self { shared, backlog, running, metrics, turn, successor: Box::new(successor) })
    }

    /// Says that the job at `index` of the backlog runs from now, and may take `limit`. Gives the present instant.
    pub fn begin(&self, index: usize, limit: Duration) -> Instant {
        let now = Instant::now();
        *lock(&self.running) = Some(Running { index, began: now, latest: now + limit + GRACE });
        now
    }

    /// Has the run of the moment begin now: what it waited for was no time of its own. One that was given up meanwhile
    /// stays so.
    pub fn begin_anew(&self, limit: Duration) {
        let now = Instant::now();
        if let Some(running) = lock(&self.running).as_mut() {
            (running.began, running.latest) = (now, now + limit + GRACE);
        }
    }

    /// Lets the run of the moment take this much longer.
    fn prolong(&self, by: Duration) {
        if let Some(running) = lock(&self.running).as_mut() {
            running.latest += by;
        }
    }

    /// Says that it has ended.
    pub fn end(&self) {
        *lock(&self.running) = None;
    }

    /// Takes the desk away from a thread whose run is too late.
    fn relieve(&self, now: Instant) {
        // A run that is inside a host call is not stuck in the engine: queries have a limit of their own.
        let Some(connection) = self.shared.try_hold() else { return };
        let mut running = lock(&self.running);
        let (index, used) = match running.as_ref() {
            Some(run) if run.latest < now => (run.index, now.saturating_duration_since(run.began)),
            Some(_) | None => return,
        };
        *running = None;
        connection.part();
        let mut jobs = std::mem::take(&mut *lock(&self.backlog));
        let mut tenant = String::new();
        if index < jobs.len() {
            let culprit = jobs.remove(index);
            let scope = &culprit.invocation.scope;
            tracing::error!(operation = scope.operation, invocation = scope.invocation, "a stuck handler was given up");
            let failure = Failure::new(
                Code::Limit,
                format!(
                    "the handler ran past its limit of {:?} in a built-in that cannot be interrupted, and was given up; \
                     work on less data at once",
                    culprit.invocation.limits.time
                ),
            );
            tenant.clone_from(&scope.tenant);
            culprit.answer(Err(failure.into()));
        }
        drop(running);
        self.metrics.relieved();
        (self.successor)(Left { jobs, tenant, used });
    }
}

/// Looks at all desks, from a thread of its own that ends with the last handle.
#[derive(Default)]
pub struct Watchdog {
    desks: Mutex<Vec<Weak<Desk>>>,
    looked: Mutex<Looked>,
}

/// When it looked.
#[derive(Default)]
struct Looked {
    last: Option<Instant>,
    /// The last time that came late.
    late: Option<Instant>,
}

impl Looked {
    /// How much later than it should an instant comes after the last look, where that is too much.
    fn late(&self, now: Instant) -> Option<Duration> {
        let since = now.saturating_duration_since(self.last?);
        since.checked_sub(ROUND).filter(|late| *late > STOOD)
    }
}

impl Watchdog {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the operating system has no thread left.
    pub fn start() -> std::io::Result<Arc<Self>> {
        let watchdog = Arc::new(Self::default());
        let weak = Arc::downgrade(&watchdog);
        std::thread::Builder::new().name("watchdog".to_owned()).spawn(move || {
            while let Some(watchdog) = weak.upgrade() {
                watchdog.round(Instant::now());
                drop(watchdog);
                std::thread::park_timeout(ROUND);
            }
        })?;
        Ok(watchdog)
    }

    pub(super) fn watch(&self, desk: &Arc<Desk>) {
        lock(&self.desks).push(Arc::downgrade(desk));
    }

    /// Whether this process stood still for a while since then, as a stopped one does: that time was no run's own.
    pub fn stood_since(&self, began: Instant) -> bool {
        let looked = lock(&self.looked);
        looked.late.is_some_and(|late| late > began) || looked.late(Instant::now()).is_some()
    }

    fn round(&self, now: Instant) {
        let late = {
            let mut looked = lock(&self.looked);
            let late = looked.late(now);
            looked.last = Some(now);
            looked.late = late.map(|_| now).or(looked.late);
            late
        };
        let desks: Vec<_> = {
            let mut desks = lock(&self.desks);
            desks.retain(|desk| desk.strong_count() > 0);
            desks.iter().filter_map(Weak::upgrade).collect()
        };
        for desk in desks {
            if let Some(late) = late {
                desk.prolong(late);
            }
            desk.relieve(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::metrics::Metrics;
    use crate::store::{Access, Database, Fate};

    fn sqlite(shared: &Shared) -> &crate::store::sqlite::Shared {
        let Shared::Sqlite(shared) = shared else { panic!("no SQLite") };
        shared
    }

    /// A desk on a database of its own, and how often it was passed on.
    fn desk() -> (tempfile::TempDir, Arc<Desk>, Arc<AtomicUsize>) {
        let folder = tempfile::tempdir().unwrap();
        let shared = Database::Sqlite(folder.path().join("p.db")).open(Access::Write).unwrap();
        sqlite(&shared).lock().execute_batch("CREATE TABLE t (id TEXT)").unwrap();
        let passed_on = Arc::new(AtomicUsize::new(0));
        let counts = passed_on.clone();
        let desk = Desk::new(shared, Metrics::default().plugin("p"), Arc::default(), move |_| {
            counts.fetch_add(1, Ordering::SeqCst);
        });
        (folder, desk, passed_on)
    }

    #[test]
    fn a_run_within_its_limit_and_grace_or_in_a_host_call_keeps_its_desk() {
        let (_folder, desk, passed_on) = desk();
        let tx = desk.shared.begin().unwrap();
        desk.relieve(Instant::now() + GRACE * 10);
        let began = desk.begin(0, Duration::from_secs(1));
        desk.relieve(began + Duration::from_secs(1));
        let in_a_call = sqlite(&desk.shared).lock();
        desk.relieve(began + Duration::from_secs(60));
        drop(in_a_call);
        desk.end();
        desk.relieve(began + Duration::from_secs(60));
        assert_eq!(tx.fate(), Fate::Open);
        assert_eq!(passed_on.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn time_in_which_the_process_stood_still_is_not_the_runs() {
        let (_folder, desk, passed_on) = desk();
        let watchdog = Watchdog::default();
        watchdog.watch(&desk);
        let began = desk.begin(0, Duration::from_secs(1));
        watchdog.round(began);
        assert!(!watchdog.stood_since(began));
        let woke = began + Duration::from_secs(60);
        watchdog.round(woke);
        assert!(watchdog.stood_since(began) && !watchdog.stood_since(woke));
        assert_eq!(passed_on.load(Ordering::SeqCst), 0, "it has its second yet");
        for tenths in 1..=16 {
            watchdog.round(woke + ROUND * tenths);
        }
        assert_eq!(passed_on.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_late_run_loses_its_desk_once_and_its_transaction_is_undone() {
        let (_folder, desk, passed_on) = desk();
        let tx = desk.shared.begin().unwrap();
        tx.execute("INSERT INTO t VALUES ('stuck')").unwrap();
        let began = desk.begin(0, Duration::from_secs(1));
        let late = began + Duration::from_secs(1) + GRACE + Duration::from_millis(1);
        desk.relieve(late);
        desk.relieve(late);
        assert_eq!(tx.fate(), Fate::Parted);
        assert!(tx.execute("INSERT INTO t VALUES ('later')").is_err());
        let rows: i64 = sqlite(&desk.shared).lock().query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap();
        assert_eq!((passed_on.load(Ordering::SeqCst), desk.metrics.reliefs(), rows), (1, 1, 0));
    }

    #[test]
    fn a_run_that_begins_anew_after_it_was_given_up_stays_so() {
        let (_folder, desk, passed_on) = desk();
        let long = Duration::from_secs(60);
        let began = desk.begin(0, Duration::from_secs(1));
        desk.begin_anew(long);
        desk.relieve(began + long);
        assert_eq!(passed_on.load(Ordering::SeqCst), 0, "it has its whole limit from there");
        desk.relieve(began + long * 2);
        desk.begin_anew(long);
        desk.relieve(began + long * 9);
        assert_eq!(passed_on.load(Ordering::SeqCst), 1);
    }
}
