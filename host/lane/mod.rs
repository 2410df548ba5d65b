//! A lane per plugin: a bounded queue, one writer that owns the database's write connection and a script engine,
//! and readers beside it. Its door is messages only: work goes in, a reply comes out. Threads start on first use and
//! end when there is nothing to do.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, oneshot};

use crate::clock::Clock;
use crate::failure::{Code, Failure};
use crate::invoke::{Invocation, InvokeError, Outcome};
use crate::metrics::{LaneStanding, Metrics, PluginMetrics};
use crate::nudge::Nudges;
use crate::plugin::Kind;
use crate::store::{Database, Shared, StoreError};
use crate::workflow::Wakes;

mod again;
mod group;
mod kept;
mod queue;
mod reader;
mod turns;
mod watchdog;
mod writer;

use queue::{Put, Queue};
use turns::Whose;
pub use watchdog::Watchdog;

/// Threads of one plugin that may hang in runs that were given up. Each of them keeps a processor busy.
const MOST_STUCK: usize = 4;

/// How far a lane's account of invocations that talk with the database goes.
const TALK: usize = 64;

/// What an invocation came to.
pub type Reply = Result<Outcome, InvokeError>;

/// What all lanes share.
#[derive(Clone)]
pub struct LaneSettings {
    /// Invocations that may wait.
    pub queue: usize,
    /// How long a thread without work stays.
    pub idle: Duration,
    /// Threads that run read actions.
    pub readers: usize,
    pub clock: Arc<dyn Clock>,
    pub watchdog: Arc<Watchdog>,
    pub metrics: Arc<Metrics>,
    /// Told after each commit.
    pub committed: Arc<Nudges>,
    pub after: Arc<dyn AfterCommit>,
    /// Where the replies of a group are sent, so that the thread of the lane need not wake each caller itself.
    pub runtime: Option<tokio::runtime::Handle>,
}

/// An invocation on its way through a lane.
pub(crate) struct Job {
    pub invocation: Arc<Invocation>,
    pub reply: Answer,
    /// Held until the reply is on its way: later tries with the same key wait for it.
    pub _hold: Option<tokio::sync::OwnedMutexGuard<()>>,
    /// Counts it, until it is done, among those of its door.
    under_way: Option<Arc<()>>,
}

/// Whom a reply goes to.
pub(crate) enum Answer {
    Caller(oneshot::Sender<Reply>),
    /// The host itself; called on the lane's thread.
    Host(Box<dyn FnOnce(Reply) + Send>),
}

impl Answer {
    fn send(self, reply: Reply) {
        match self {
            // Who asked may have gone away; the key's record keeps the reply for the next try.
            Answer::Caller(caller) => drop(caller.send(reply)),
            Answer::Host(host) => host(reply),
        }
    }
}

/// Who goes on with what a commit made possible.
pub trait AfterCommit: Send + Sync {
    /// Called on the lane's thread, once what it says is on disk and the replies have left.
    fn committed(&self, plugin: &str, wakes: Wakes);
}

/// Work that needs the connection for itself.
type Exclusive = Box<dyn FnOnce(&Shared) + Send>;

/// What a writer does.
pub(crate) enum Work {
    Invoke(Job),
    /// Something that needs the connection for itself, between groups.
    Exclusive(Exclusive),
}

impl Job {
    fn new(invocation: Arc<Invocation>, reply: Answer, hold: Option<tokio::sync::OwnedMutexGuard<()>>) -> Self {
        Self { invocation, reply, _hold: hold, under_way: None }
    }

    fn answer(self, reply: Reply) {
        // First: who is answered may ask again before this thread has gone any further, and finds it free.
        drop(self.under_way);
        self.reply.send(reply);
    }

    /// Answers without doing it.
    fn refuse(self, failure: &Failure) {
        self.answer(Err(failure.clone().into()));
    }
}

impl Work {
    fn job(self) -> Option<Job> {
        match self {
            Work::Invoke(job) => Some(job),
            Work::Exclusive(_) => None,
        }
    }
}

impl Whose for Job {
    fn tenant(&self) -> &str {
        &self.invocation.scope.tenant
    }
}

impl Whose for Work {
    fn tenant(&self) -> &str {
        match self {
            Work::Invoke(job) => job.tenant(),
            Work::Exclusive(_) => "",
        }
    }
}

/// A plugin's lane.
pub struct Lane {
    plugin: String,
    database: Database,
    settings: LaneSettings,
    metrics: Arc<PluginMetrics>,
    turn: Arc<again::Turn>,
    write: Mutex<Door<Work>>,
    read: Mutex<Door<Job>>,
    /// Threads that still hang in runs that were given up.
    stuck: AtomicUsize,
    /// Rises with invocations that wait for answers of the database in the middle, and falls with others.
    talk: AtomicUsize,
    /// Told each time a thread ends.
    ended: Notify,
}

/// The way in to one kind of thread.
struct Door<T> {
    /// `None` while no thread runs, and for good once `closed`.
    queue: Option<Arc<Queue<T>>>,
    threads: usize,
    closed: bool,
    /// Held by each job that has come in and is not done.
    under_way: Arc<()>,
}

impl<T> Default for Door<T> {
    fn default() -> Self {
        Self { queue: None, threads: 0, closed: false, under_way: Arc::default() }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    match mutex.lock() {
        Ok(guard) => guard,
        Err(poisoned) => poisoned.into_inner(),
    }
}

impl Lane {
    /// A lane for the plugin with this database. Nothing is opened yet.
    pub fn new(plugin: &str, database: Database, settings: LaneSettings) -> Arc<Self> {
        Arc::new(Self {
            plugin: plugin.to_owned(),
            database,
            metrics: settings.metrics.plugin(plugin),
            settings,
            turn: Arc::default(),
            write: Mutex::default(),
            read: Mutex::default(),
            stuck: AtomicUsize::new(0),
            talk: AtomicUsize::new(0),
            ended: Notify::new(),
        })
    }

    /// The reply of a run that began then. What ran into a limit while the whole process stood still had no chance to keep
    /// it, and may be tried again: the time was not its own.
    fn excused(&self, reply: Reply, began: Instant) -> Reply {
        match reply {
            Err(InvokeError::Failure(failure))
                if failure.code == Code::Limit && self.settings.watchdog.stood_since(began) =>
            {
                tracing::warn!(plugin = self.plugin, %failure, "the host stood still while a handler ran");
                let text = "the host was stopped for a while as the handler ran, and its time ran out; nothing was \
                            written, try again";
                Err(Failure::new(Code::Unavailable, text).into())
            }
            reply => reply,
        }
    }

    /// Does an invocation and gives its reply, once what it rests on is on disk.
    ///
    /// # Errors
    /// See [`InvokeError`]; `OVERLOADED` when the queue is full, or too many runs hang.
    pub async fn invoke(
        self: &Arc<Self>,
        invocation: Arc<Invocation>,
        kind: Kind,
        hold: Option<tokio::sync::OwnedMutexGuard<()>>,
    ) -> Reply {
        let stuck = self.stuck();
        if stuck >= MOST_STUCK {
            let text = format!(
                "{stuck} runs of {} were given up and still keep processors busy; it is served again when some have ended",
                self.plugin
            );
            return Err(Failure::new(Code::Overloaded, text).into());
        }
        let (reply, answer) = oneshot::channel();
        let job = Job::new(invocation, Answer::Caller(reply), hold);
        match kind {
            Kind::Write => self.send_write(Work::Invoke(job))?,
            Kind::Read => self.send_read(job)?,
        }
        answer.await.unwrap_or_else(|_| Err(unknown_outcome().into()))
    }

    /// Puts an invocation in the queue of those that write, or that read; `answer` is called on the lane's thread.
    ///
    /// # Errors
    /// `OVERLOADED` when the queue is full; `answer` is not called then.
    pub fn post(
        self: &Arc<Self>,
        invocation: Arc<Invocation>,
        kind: Kind,
        answer: impl FnOnce(Reply) + Send + 'static,
    ) -> Result<(), Failure> {
        let job = Job::new(invocation, Answer::Host(Box::new(answer)), None);
        match kind {
            Kind::Write => self.send_write(Work::Invoke(job)),
            Kind::Read => self.send_read(job),
        }
    }

    /// Puts work in the queue that needs the write connection for itself, outside any transaction.
    ///
    /// # Errors
    /// `OVERLOADED` when the queue is full.
    pub fn post_exclusive(self: &Arc<Self>, work: impl FnOnce(&Shared) + Send + 'static) -> Result<(), Failure> {
        self.send_write(Work::Exclusive(Box::new(work)))
    }

    /// Runs `work` with the write connection for itself, outside any transaction.
    ///
    /// # Errors
    /// `OVERLOADED` when the queue is full, `UNAVAILABLE` when the database cannot be opened.
    pub async fn exclusive<R: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Shared) -> R + Send + 'static,
    ) -> Result<R, Failure> {
        let (reply, answer) = oneshot::channel();
        let work = Box::new(move |shared: &Shared| {
            // Whoever asked may have gone away meanwhile; the work is done all the same.
            drop(reply.send(work(shared)));
        });
        self.send_write(Work::Exclusive(work))?;
        answer.await.map_err(|_| self.unopened())
    }

    /// Whether its invocations wait for answers of the database in the middle.
    fn talks(&self) -> bool {
        self.talk.load(Ordering::Relaxed) > TALK / 2
    }

    /// Notes what one did. Two of three that talk are as good as all.
    fn talked(&self, talked: bool) {
        let next = |talk: usize| Some(if talked { (talk + 4).min(TALK) } else { talk.saturating_sub(2) });
        // It always takes the next one.
        let _taken = self.talk.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
    }

    /// Logs why the database cannot be opened. Callers hear only that it cannot: paths are none of their business.
    fn closed_database(&self, error: &StoreError) -> Failure {
        tracing::error!(plugin = self.plugin, "{error}");
        self.unopened()
    }

    fn unopened(&self) -> Failure {
        let text = format!("the database of {} cannot be opened; the host's log says why", self.plugin);
        Failure::new(Code::Unavailable, text)
    }

    fn send_write(self: &Arc<Self>, work: Work) -> Result<(), Failure> {
        let mut door = lock(&self.write);
        if door.closed {
            return Err(stopping());
        }
        let queue = door.queue.clone().unwrap_or_else(|| Queue::new(self.settings.queue));
        // One more thread as long as calls wait, up to what the database takes at a time.
        let most = self.database.writers(self.talks());
        if door.threads == 0 || door.queue.is_none() || (!queue.is_empty() && door.threads < most) {
            writer::start(self, &queue, None, &mut door)?;
        }
        door.queue = Some(queue.clone());
        // Under the lock, so that no work falls behind a writer that is about to end.
        self.admitted(queue.put(work), writer::refuse)
    }

    fn send_read(self: &Arc<Self>, mut job: Job) -> Result<(), Failure> {
        let mut door = lock(&self.read);
        if door.closed {
            return Err(stopping());
        }
        let queue = door.queue.clone().unwrap_or_else(|| Queue::new(self.settings.queue));
        // One more thread where each has something to do, up to the limit. One's own count is not a job's.
        let under_way = Arc::strong_count(&door.under_way) - 1;
        let busy = under_way >= door.threads;
        if door.threads == 0 || door.queue.is_none() || (door.threads < self.settings.readers && busy) {
            reader::start(self, &queue, &mut door)?;
        }
        door.queue = Some(queue.clone());
        job.under_way = Some(door.under_way.clone());
        self.admitted(queue.put(job), Job::refuse)
    }

    /// Tells whoever had to make room, or gives the failure of what found none.
    fn admitted<T>(&self, put: Put<T>, refuse: impl FnOnce(T, &Failure)) -> Result<(), Failure> {
        let full = || {
            let room = self.settings.queue;
            Failure::new(Code::Overloaded, format!("{room} calls of {} wait already; try again shortly", self.plugin))
        };
        match put {
            Put::Waits => Ok(()),
            Put::Instead(other) => {
                refuse(other, &full());
                Ok(())
            }
            Put::Full(_) => Err(full()),
        }
    }

    /// Takes no more work, waits until what is in the queue is done, at most until `deadline`, and closes the database:
    /// the writer last, since only a writer can bring the log into the file.
    pub async fn close(&self, deadline: Instant) {
        // A read that hangs takes no time from the writes: they go on, and no more of them come in.
        lock(&self.write).closed = true;
        self.shut(&self.read, deadline).await;
        self.shut(&self.write, deadline).await;
    }

    async fn shut<T: Whose>(&self, door: &Mutex<Door<T>>, deadline: Instant) {
        let close = |door: &mut Door<T>| {
            door.closed = true;
            door.queue.take().inspect(|queue| queue.close());
            door.threads
        };
        loop {
            let ended = self.ended.notified();
            if close(&mut lock(door)) == 0 || tokio::time::timeout_at(deadline.into(), ended).await.is_err() {
                return;
            }
        }
    }

    /// Threads that are running now.
    pub fn threads(&self) -> usize {
        self.standing().threads.iter().sum()
    }

    /// Threads that still hang in runs that were given up.
    pub fn stuck(&self) -> usize {
        self.stuck.load(Ordering::Relaxed)
    }

    /// How it stands at the moment.
    pub fn standing(&self) -> LaneStanding {
        fn look<T: Whose>(door: &Mutex<Door<T>>) -> (usize, usize) {
            let door = lock(door);
            (door.queue.as_ref().map_or(0, |queue| queue.len()), door.threads)
        }
        let (write, read) = (look(&self.write), look(&self.read));
        LaneStanding {
            plugin: self.plugin.clone(),
            waiting: [write.0, read.0],
            threads: [write.1, read.1],
            reliefs: self.metrics.reliefs(),
        }
    }
}

/// Starts a thread in the place of one that broke off.
type Restart<T> = fn(&Arc<Lane>, &Arc<Queue<T>>, &mut Door<T>) -> Result<(), Failure>;

/// Takes care of what a thread that breaks off leaves behind: who waits for what it ran hears that the outcome is
/// unknown, and what is still in its queue goes to another thread.
struct Broken<T: Whose> {
    lane: Arc<Lane>,
    door: fn(&Lane) -> &Mutex<Door<T>>,
    queue: Arc<Queue<T>>,
    restart: Restart<T>,
    /// Set, with the door locked, when the watchdog has relieved the thread: its place and its queue are another's then.
    relieved: Arc<AtomicBool>,
}

impl<T: Whose> Drop for Broken<T> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        let mut door = lock((self.door)(&self.lane));
        if self.relieved.load(Ordering::Relaxed) {
            self.lane.stuck.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        door.threads = door.threads.saturating_sub(1);
        if door.threads == 0 {
            let left = !self.queue.is_empty();
            if !left || (self.restart)(&self.lane, &self.queue, &mut door).is_err() {
                door.queue = None;
                self.queue.abandon();
            }
        }
        self.lane.ended.notify_waiters();
    }
}

fn stopping() -> Failure {
    Failure::new(Code::Overloaded, "the host is shutting down; try again on the next one")
}

fn unknown_outcome() -> Failure {
    Failure::new(
        Code::Unavailable,
        "the database failed while this was being committed, and the outcome is unknown; call again with the same \
         Idempotency-Key to find out",
    )
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .stack_size(crate::script::THREAD_STACK)
        .spawn(work)
        .map(drop)
        .map_err(|error| {
            Failure::new(Code::Overloaded, format!("the machine has no thread left for this call: {error}"))
        })
}
