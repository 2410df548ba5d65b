//! The threads that scripts of steps run on. A script that waits for the network holds no thread, only its engine: a few
//! threads serve all of them. A thread that cannot be interrupted is given up, as in a lane.

use std::collections::{HashMap, VecDeque};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;

use super::outside::{Reach, StepHost};
use super::step::{self, Prepared};
use super::{Flows, Landing};
use crate::app::App;
use crate::bindings::ctx;
use crate::codec::Value;
use crate::failure::{Code, Failure};
use crate::invoke::{InvokeError, from_script};
use crate::plugin::Code as Modules;
use crate::script::{Call, Engine, Progress, ScriptError};
use crate::workflow::{Claimed, Trouble};

/// Scripts that run or wait at a time; each has an engine of some hundred KiB.
const MOST_RUNS: usize = 256;
/// Of these so many are kept for tenants of a plugin with few scripts under way.
const KEPT_RUNS: usize = MOST_RUNS / 4;
/// How many are few.
const FEW_RUNS: usize = 16;
/// Engines that a thread keeps for the next scripts for as long as it lives; it keeps what it used within [`SPARED`], too.
const KEPT_ENGINES: usize = 8;
/// How long an engine is kept beyond [`KEPT_ENGINES`]: to make one takes longer than most scripts.
const SPARED: Duration = Duration::from_secs(5);
/// How long a thread without scripts stays.
const IDLE: Duration = Duration::from_secs(30);
/// How long past its limit a script may still take before its thread is given up.
const GRACE: Duration = Duration::from_millis(500);

/// A script to run, with all that its run needs.
pub(super) struct Work {
    pub claimed: Claimed,
    pub prepared: Prepared,
    pub landing: Landing,
}

/// What a thread is told.
pub(super) enum Message {
    Start(Box<Prepared>, u64),
    /// What a run began outside has ended.
    Settled {
        run: u64,
        number: u32,
        outcome: Result<Value, Failure>,
    },
    Abort {
        run: u64,
        why: String,
    },
}

/// All threads, and what waits for them.
#[derive(Default)]
pub(super) struct Scripts {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    threads: HashMap<u64, Thread>,
    waiting: VecDeque<Work>,
    next: u64,
}

impl State {
    /// What runs next, if there is room for it: the first of whoever has least under way.
    fn next_work(&mut self) -> Option<Work> {
        let taken: usize = self.threads.values().map(|thread| thread.runs.len()).sum();
        if self.waiting.len() <= 1 && taken < MOST_RUNS - KEPT_RUNS {
            return self.waiting.pop_front();
        }
        let mut whose = HashMap::<(&str, &str), usize>::new();
        for (claimed, _, prepared) in self.threads.values().flat_map(|thread| thread.runs.values()) {
            *whose.entry((&prepared.scope.plugin.id, &claimed.facts.tenant)).or_default() += 1;
        }
        let under_way = |work: &Work| {
            let of = (work.prepared.scope.plugin.id.as_str(), work.claimed.facts.tenant.as_str());
            whose.get(&of).copied().unwrap_or(0)
        };
        let next = self.waiting.iter().enumerate().map(|(at, work)| (under_way(work), at)).min();
        let (has, at) = next?;
        let room = if has < FEW_RUNS { MOST_RUNS } else { MOST_RUNS - KEPT_RUNS };
        if taken < room { self.waiting.remove(at) } else { None }
    }
}

struct Thread {
    sender: Sender<Message>,
    runs: HashMap<u64, (Claimed, Landing, Arc<Prepared>)>,
    /// Which run has the thread at the moment.
    busy: Option<Busy>,
}

#[derive(Clone, Copy)]
struct Busy {
    run: u64,
    since: Instant,
    /// Until when it may.
    until: Instant,
}

impl Scripts {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a script, as soon as there is room.
    pub fn submit(self: &Arc<Self>, app: &Arc<App>, work: Work) {
        let mut state = self.state();
        state.waiting.push_back(work);
        self.hand_out(app, &mut state);
    }

    fn hand_out(self: &Arc<Self>, app: &Arc<App>, state: &mut State) {
        while let Some(work) = state.next_work() {
            let Some(id) = self.thread(app, state) else {
                // Its claim runs out, and then it is tried again.
                tracing::error!("no thread can be started for the scripts of flow steps");
                return;
            };
            state.next += 1;
            let run = state.next;
            let Some(thread) = state.threads.get_mut(&id) else { return };
            let prepared = work.prepared;
            thread.runs.insert(run, (work.claimed, work.landing, Arc::new(prepared.clone())));
            if thread.sender.send(Message::Start(Box::new(prepared), run)).is_err() {
                thread.runs.remove(&run);
            }
        }
    }

    /// The thread with least to do; a new one while all are busy.
    fn thread(self: &Arc<Self>, app: &Arc<App>, state: &mut State) -> Option<u64> {
        let most = std::thread::available_parallelism().map_or(2, usize::from).max(2) * 2;
        let best = state.threads.iter().min_by_key(|(_, thread)| (thread.busy.is_some(), thread.runs.len()));
        if let Some((id, thread)) = best
            && (thread.runs.is_empty() || state.threads.len() >= most)
        {
            return Some(*id);
        }
        state.next += 1;
        let id = state.next;
        let (sender, receiver) = channel();
        let runner = (Arc::downgrade(app), self.clone(), sender.clone());
        let handle = Handle::try_current().ok().or_else(|| app.flows.runtime())?;
        let started = std::thread::Builder::new()
            .name("script".to_owned())
            .stack_size(crate::script::THREAD_STACK)
            .spawn(move || {
                let (app, scripts, sender) = runner;
                Runner { app, scripts, id, sender, handle, slots: HashMap::new(), idle: Vec::new() }.work(&receiver);
            });
        started.ok()?;
        state.threads.insert(id, Thread { sender, runs: HashMap::new(), busy: None });
        Some(id)
    }

    /// Tells the scripts of a workflow that they are to stop.
    pub fn abort(&self, workflow: i64, plugin: &str, why: &str) {
        let state = self.state();
        for thread in state.threads.values() {
            for (run, (claimed, _, prepared)) in &thread.runs {
                if claimed.facts.id == workflow && prepared.scope.plugin.id == plugin {
                    let _gone = thread.sender.send(Message::Abort { run: *run, why: why.to_owned() });
                }
            }
        }
    }

    /// Gives up threads that a script keeps beyond its limit.
    pub fn watch(self: &Arc<Self>, app: &Arc<App>) {
        let mut state = self.state();
        let now = Instant::now();
        let mut stuck = Vec::new();
        for (id, thread) in &mut state.threads {
            match &mut thread.busy {
                Some(busy) if busy.until + GRACE < now && app.stood_since(busy.since) => {
                    // Nobody had that time.
                    *busy = Busy { since: now, until: now, ..*busy };
                }
                Some(busy) if busy.until + GRACE < now => stuck.push(*id),
                Some(_) | None => {}
            }
        }
        for id in stuck {
            let Some(thread) = state.threads.remove(&id) else { continue };
            let culprit = thread.busy.map(|busy| busy.run);
            for (run, (claimed, landing, prepared)) in thread.runs {
                let (plugin, operation) = (&prepared.scope.plugin.id, &prepared.scope.operation);
                // Those that waited beside it are not to blame: they run again, and the try does not count.
                let trouble = (Some(run) == culprit).then(|| {
                    let text = "LIMIT: the script ran past its limit in a built-in that cannot be interrupted, and was \
                                given up; work on less data at once";
                    tracing::error!(plugin, operation, "a script was given up: {text}");
                    app.metrics.plugin(plugin).relieved();
                    Trouble { text: text.to_owned(), details: None, again: true }
                });
                if trouble.is_none() {
                    tracing::warn!(
                        plugin,
                        operation,
                        "the thread of this script was given up with another; it runs again"
                    );
                }
                app.flows.unsettled(plugin, claimed, trouble);
                drop(landing);
            }
        }
        self.hand_out(app, &mut state);
    }

    /// Whether any script keeps a thread at the moment, so that somebody must look again soon.
    pub fn is_busy(&self) -> bool {
        self.state().threads.values().any(|thread| thread.busy.is_some())
    }

    fn begin(&self, thread: u64, run: u64, until: Instant) {
        if let Some(thread) = self.state().threads.get_mut(&thread) {
            thread.busy = Some(Busy { run, since: Instant::now(), until });
        }
    }

    /// Says that a run waits. Gives whether the thread was not given up meanwhile.
    fn rest(&self, thread: u64) -> bool {
        self.state().threads.get_mut(&thread).map(|thread| thread.busy = None).is_some()
    }

    /// Takes a run that has ended; `None` where the thread was given up meanwhile.
    fn end(&self, thread: u64, run: u64) -> Option<(Claimed, Landing, Arc<Prepared>)> {
        let mut state = self.state();
        let thread = state.threads.get_mut(&thread)?;
        thread.busy = None;
        thread.runs.remove(&run)
    }

    fn leave(&self, thread: u64) -> bool {
        let mut state = self.state();
        let free = state.threads.get(&thread).is_none_or(|thread| thread.runs.is_empty());
        if free {
            state.threads.remove(&thread);
        }
        free
    }
}

/// One thread: the engines of the scripts that it runs.
struct Runner {
    app: std::sync::Weak<App>,
    scripts: Arc<Scripts>,
    id: u64,
    sender: Sender<Message>,
    handle: Handle,
    /// Runs that wait, each with its engine.
    slots: HashMap<u64, Slot>,
    /// Engines without a run, the one that ran last at the end.
    idle: Vec<Idle>,
}

struct Idle {
    engine: Engine,
    /// What it last ran.
    code: Arc<Modules>,
    since: Instant,
}

struct Slot {
    engine: Engine,
    prepared: Box<Prepared>,
    reach: Reach,
    began: Instant,
}

impl Runner {
    fn work(mut self, messages: &Receiver<Message>) {
        loop {
            let soonest = self.slots.values().filter_map(|slot| slot.engine.deadline()).min();
            let rest = if self.spare() { SPARED } else { IDLE };
            let pause = soonest.map_or(rest, |at| at.saturating_duration_since(Instant::now()).min(rest));
            let alive = match messages.recv_timeout(pause) {
                Ok(Message::Start(prepared, run)) => self.start(prepared, run),
                Ok(Message::Settled { run, number, outcome }) => {
                    self.go_on(run, |engine| engine.resume(number, outcome))
                }
                Ok(Message::Abort { run, why }) => self.go_on(run, |engine| engine.abort(&why)),
                Err(RecvTimeoutError::Timeout) if self.slots.is_empty() && rest == IDLE => {
                    if self.scripts.leave(self.id) {
                        return;
                    }
                    true
                }
                Err(RecvTimeoutError::Timeout) => self.expire(),
                Err(RecvTimeoutError::Disconnected) => return,
            };
            if !alive {
                return;
            }
        }
    }

    fn start(&mut self, prepared: Box<Prepared>, run: u64) -> bool {
        let Some(app) = self.app.upgrade() else { return false };
        let began = Instant::now();
        crate::crash_point!("script-begins");
        let code = prepared.scope.plugin.code.clone();
        let kept = self.idle.iter().rposition(|idle| Arc::ptr_eq(&idle.code, &code));
        let engine = match kept.map(|index| self.idle.remove(index)) {
            Some(idle) => Ok(idle.engine),
            None => Engine::new(prepared.engine.clone()),
        };
        let mut engine = match engine {
            Ok(engine) => engine,
            Err(error) => return self.ended(run, Err(error), &prepared, &Reach::default(), began),
        };
        let reach = Reach::new(prepared.scope.plugin.veil());
        let host = StepHost::new(&app, &prepared, &self.handle, self.sender.clone(), run, reach.clone());
        self.scripts.begin(self.id, run, Instant::now() + prepared.limits.time);
        let facts = prepared.facts.to_string();
        let written = ctx::Written::new(&prepared.scope);
        let call = Call {
            code: &code,
            entry: prepared.entry,
            export: "handle",
            input: &prepared.input,
            ctx: &written.facts(&prepared.scope),
            now: prepared.scope.now,
            seed: ctx::seed(&prepared.scope),
            limits: &prepared.limits,
            step: Some(&facts),
        };
        let progress = engine.start(&call, Box::new(host));
        self.progressed(run, Slot { engine, prepared, reach, began }, progress)
    }

    fn go_on(&mut self, run: u64, how: impl FnOnce(&mut Engine) -> Progress) -> bool {
        let Some(mut slot) = self.slots.remove(&run) else { return true };
        let until = slot.engine.deadline().unwrap_or_else(Instant::now);
        self.scripts.begin(self.id, run, until.max(Instant::now()));
        let progress = how(&mut slot.engine);
        self.progressed(run, slot, progress)
    }

    /// Ends the runs whose time is over while they wait.
    fn expire(&mut self) -> bool {
        let now = Instant::now();
        let late = |slot: &Slot| slot.engine.deadline().is_some_and(|at| at <= now);
        let runs: Vec<u64> = self.slots.iter().filter(|(_, slot)| late(slot)).map(|(run, _)| *run).collect();
        runs.into_iter().all(|run| self.go_on(run, Engine::expire))
    }

    /// Gives whether the thread goes on.
    fn progressed(&mut self, run: u64, slot: Slot, progress: Progress) -> bool {
        match progress {
            Progress::Waits => {
                self.slots.insert(run, slot);
                self.scripts.rest(self.id)
            }
            Progress::Done(result) => {
                let Slot { engine, prepared, reach, began } = slot;
                if let Some(app) = self.app.upgrade() {
                    app.metrics.plugin(&prepared.scope.plugin.id).limited(&engine.limits_hit());
                }
                let alive = self.ended(run, result, &prepared, &reach, began);
                if !engine.is_spent() {
                    let code = prepared.scope.plugin.code.clone();
                    self.idle.push(Idle { engine, code, since: Instant::now() });
                }
                alive
            }
        }
    }

    /// Drops engines that have been idle for a while, beyond those that are kept; some may be of a version that is gone.
    /// Gives whether there are others that are not dropped yet.
    fn spare(&mut self) -> bool {
        let beyond = self.idle.len().saturating_sub(KEPT_ENGINES);
        let old = self.idle.iter().take(beyond).filter(|idle| idle.since.elapsed() >= SPARED).count();
        self.idle.drain(..old);
        old < beyond
    }

    fn ended(
        &mut self,
        run: u64,
        result: Result<String, ScriptError>,
        prepared: &Prepared,
        reach: &Reach,
        began: Instant,
    ) -> bool {
        reach.end();
        let Some((claimed, landing, _)) = self.scripts.end(self.id, run) else { return false };
        crate::crash_point!("script-ended");
        let time = prepared.limits.time;
        let result = result.map_err(|error| from_script(error, &prepared.scope, time, &reach.veil()));
        let Some(app) = self.app.upgrade() else { return false };
        match result {
            // The time was not its own: it runs again, and this try does not count.
            Err(InvokeError::Failure(failure)) if failure.code == Code::Limit && app.stood_since(began) => {
                let plugin = &prepared.scope.plugin.id;
                tracing::warn!(plugin, operation = prepared.scope.operation, %failure, "the host stood still while a script ran");
                app.flows.unsettled(plugin, claimed, None);
                drop(landing);
            }
            result => step::settle_script(&app, prepared, claimed, landing, result),
        }
        let mut state = self.scripts.state();
        self.scripts.hand_out(&app, &mut state);
        true
    }
}

impl Flows {
    /// Runs a step that is a script.
    pub(super) fn run_script(self: &Arc<Self>, app: &Arc<App>, claimed: Claimed, prepared: Prepared) {
        let landing = self.take_off(&prepared.scope.plugin.id, &claimed);
        self.scripts.submit(app, Work { claimed, prepared, landing });
    }
}
