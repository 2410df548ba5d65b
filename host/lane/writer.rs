//! The threads that write a plugin's database: one where transactions share a commit, several where each has its own.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::group::{Hand, Parted, commit_together};
use super::kept::KeptEngines;
use super::queue::{Queue, Taken};
use super::watchdog::Desk;
use super::{Answer, Broken, Door, Job, Lane, Reply, Work, lock, spawn};
use crate::failure::Failure;
use crate::invoke::{self, Invocation};
use crate::store::{Access, Shared, Tx};

/// The most invocations that share a commit.
const GROUP: usize = 256;

/// How long a thread stays after work of the host's own, such as looking at the tables when it starts: no call may follow
/// for long, and a hundred plugins would keep a hundred connections.
const BRIEFLY: Duration = Duration::from_secs(1);

struct Writer {
    lane: Arc<Lane>,
    queue: Arc<Queue<Work>>,
    desk: Option<Arc<Desk>>,
    engines: KeptEngines,
    /// How long the runs of the present group took, by their places.
    used: Vec<(usize, Duration)>,
    /// Whether the watchdog has given this thread's place to another.
    relieved: Arc<AtomicBool>,
}

/// Starts a writer of a lane, which goes on with the connection of one that got stuck, if there is one. The door is locked
/// by the caller.
pub(super) fn start(
    lane: &Arc<Lane>,
    queue: &Arc<Queue<Work>>,
    resumed: Option<Shared>,
    door: &mut Door<Work>,
) -> Result<(), Failure> {
    let (lane, queue) = (lane.clone(), queue.clone());
    spawn(&format!("write {}", lane.plugin), move || {
        let relieved = Arc::default();
        let _broken = Broken {
            lane: lane.clone(),
            door: |lane| &lane.write,
            queue: queue.clone(),
            restart: |lane, queue, door| start(lane, queue, None, door),
            relieved: Arc::clone(&relieved),
        };
        // Here, since a script engine never leaves its thread.
        let (engines, used) = (KeptEngines::default(), Vec::new());
        let mut writer = Writer { lane: lane.clone(), queue, desk: None, engines, used, relieved };
        if let Some(shared) = resumed {
            writer.sit_down(shared);
        }
        match writer.work() {
            Ok(()) => lane.ended.notify_waiters(),
            Err(Parted) => drop(lane.stuck.fetch_sub(1, Ordering::Relaxed)),
        }
    })?;
    door.threads += 1;
    Ok(())
}

impl Writer {
    /// Works until the lane closes or has been idle for long enough.
    fn work(&mut self) -> Result<(), Parted> {
        let mut called = None;
        let mut in_company = false;
        loop {
            if self.queue.is_empty() {
                self.engines.rest();
                if std::mem::take(&mut in_company) {
                    // Those who were just answered may ask again: they share the next transaction, and wake nobody.
                    std::thread::yield_now();
                }
            }
            let work = match self.queue.take(stay(self.lane.settings.idle, called)) {
                Taken::Item(work) => work,
                Taken::Closed => break,
                Taken::Idle if self.may_leave() => {
                    self.rise();
                    return Ok(());
                }
                Taken::Idle => continue,
            };
            let desk = match self.desk() {
                Ok(desk) => desk,
                Err(failure) => {
                    refuse(work, &failure);
                    self.refuse_all(&failure);
                    continue;
                }
            };
            match work {
                Work::Exclusive(work) => work(&desk.shared),
                Work::Invoke(job) => {
                    called = Some(Instant::now());
                    let jobs = std::iter::once(job).chain(self.more(&desk, 1)).collect();
                    in_company = self.serve(&desk, jobs)?;
                }
            }
        }
        // First, since whoever waits for the threads to end takes the database for closed.
        self.rise();
        lock(&self.lane.write).threads -= 1;
        Ok(())
    }

    /// What waits and may go with the `present` members of a group.
    fn more(&self, desk: &Desk, present: usize) -> impl Iterator<Item = Job> {
        let most = desk.shared.most_in_a_group(self.lane.talks()).min(GROUP);
        let more = self.queue.take_more(most.saturating_sub(present), |work| matches!(work, Work::Invoke(_)));
        more.into_iter().filter_map(Work::job)
    }

    /// Runs jobs in a group, and with them what comes in meanwhile; what has not run then goes back to the queue, but for
    /// those that must run alone. A job leaves the backlog as soon as its fate is decided, so that whoever takes over never
    /// runs it again. Gives whether there were several.
    fn serve(&mut self, desk: &Arc<Desk>, jobs: Vec<Job>) -> Result<bool, Parted> {
        *lock(&desk.backlog) = jobs;
        let mut alone = 0_usize;
        let mut several = false;
        loop {
            let mut group: Vec<Arc<Invocation>> = {
                let backlog = lock(&desk.backlog);
                let size = if alone > 0 { 1 } else { backlog.len() };
                backlog.iter().take(size).map(|job| job.invocation.clone()).collect()
            };
            if group.is_empty() {
                return Ok(several);
            }
            self.used.clear();
            let mut turn = commit_together(desk, &mut group, alone > 0, &mut AtDesk { writer: self, desk })?;
            several |= group.len() > 1;
            crate::crash_point!("before-replies");
            alone = alone.saturating_sub(1) + turn.alone;
            let wakes = turn.wakes();
            let answered = decided(desk, turn.replies);
            self.settle(desk, &group, alone, turn.commit);
            let spent = self.used.last().and_then(|(index, _)| group.get(*index)).filter(|_| self.engines.is_spent());
            let spent = spent.cloned();
            // What nobody else holds is then put away where the replies are sent.
            drop(group);
            answer(answered, self.lane.settings.runtime.as_ref());
            // Then: who relays and delivers must not be woken before those who wait for their replies.
            self.lane.settings.committed.nudge(&self.lane.plugin);
            if let Some(wakes) = wakes {
                self.lane.settings.after.committed(&self.lane.plugin, wakes);
            }
            if let Some(failure) = turn.shut {
                self.refuse_all(&failure);
            }
            if let Some(invocation) = spent {
                // What its run spent is part of its turn.
                let took = self.engines.mend(&invocation);
                self.queue.settle([], [(invocation.scope.tenant.as_str(), took)]);
            }
        }
    }

    /// Gives back to the queue what is left of a group but for those that must run alone, and says how long its runs took,
    /// each with its share of the commit.
    fn settle(&self, desk: &Desk, group: &[Arc<Invocation>], alone: usize, commit: Duration) {
        let back = {
            let mut backlog = lock(&desk.backlog);
            let at = alone.min(backlog.len());
            backlog.split_off(at)
        };
        let share = commit / u32::try_from(self.used.len().max(1)).unwrap_or(u32::MAX);
        let used = self.used.iter().filter_map(|(index, time)| {
            let invocation = group.get(*index)?;
            Some((invocation.scope.tenant.as_str(), *time + share))
        });
        self.queue.settle(back.into_iter().map(Work::Invoke), used);
    }

    /// Refuses all that waits, since each try may take as long as a lock is waited for.
    fn refuse_all(&self, failure: &Failure) {
        self.queue.drain().into_iter().for_each(|work| refuse(work, failure));
    }

    fn run(&mut self, desk: &Desk, index: usize, invocation: &Invocation, tx: &Tx) -> ControlFlow<Reply, Reply> {
        let mut engine = match self.engines.for_run(invocation) {
            Ok(engine) => engine,
            Err(failure) => return ControlFlow::Continue(Err(failure.into())),
        };
        let started = desk.begin(index, invocation.limits.time);
        // What others held until now was no time of its own.
        let claimed = || desk.begin_anew(invocation.limits.time);
        let reply = invoke::invoke(invocation, engine.as_deref_mut(), tx, self.lane.settings.clock.now(), &claimed);
        desk.end();
        self.used.push((index, started.elapsed()));
        let reply = self.lane.excused(reply, started);
        if let Some(talked) = tx.talked() {
            self.lane.talked(talked);
        }
        if let Some(engine) = engine
            && !matches!(&reply, Ok(outcome) if outcome.replayed)
        {
            self.lane.metrics.ran(started.elapsed(), &engine.limits_hit());
        }
        // Its neighbours wait for the commit, and not for another engine.
        if self.engines.is_spent() { ControlFlow::Break(reply) } else { ControlFlow::Continue(reply) }
    }

    fn desk(&mut self) -> Result<Arc<Desk>, Failure> {
        if let Some(desk) = &self.desk {
            return Ok(desk.clone());
        }
        let shared = self.lane.database.open(Access::Write).map_err(|error| self.lane.closed_database(&error))?;
        Ok(self.sit_down(shared))
    }

    fn sit_down(&mut self, shared: Shared) -> Arc<Desk> {
        let (lane, queue, connection) = (self.lane.clone(), self.queue.clone(), shared.clone());
        let relieved = self.relieved.clone();
        let (metrics, turn) = (self.lane.metrics.clone(), self.lane.turn.clone());
        let desk = Desk::new(shared, metrics, turn, move |left| {
            let mut door = lock(&lane.write);
            // The stuck thread no longer counts as one that works.
            relieved.store(true, Ordering::Relaxed);
            lane.stuck.fetch_add(1, Ordering::Relaxed);
            door.threads -= 1;
            queue.settle(left.jobs.into_iter().map(Work::Invoke), [(left.tenant.as_str(), left.used)]);
            if let Err(failure) = start(&lane, &queue, Some(connection.clone()), &mut door) {
                // Who waits is told that the outcome is unknown.
                tracing::error!(%failure, "no new writer could be started");
                door.queue = None;
                queue.abandon();
            }
        });
        self.lane.settings.watchdog.watch(&desk);
        self.desk = Some(desk.clone());
        desk
    }

    fn rise(&mut self) {
        if let Some(desk) = self.desk.take() {
            desk.shared.tidy();
        }
    }

    /// Ends the writer of an idle lane, unless work came in at the last moment.
    fn may_leave(&self) -> bool {
        let mut door = lock(&self.lane.write);
        if !self.queue.is_empty() {
            return false;
        }
        door.threads -= 1;
        if door.threads == 0 && door.queue.as_ref().is_some_and(|queue| Arc::ptr_eq(queue, &self.queue)) {
            door.queue = None;
        }
        true
    }
}

/// A writer at its desk.
struct AtDesk<'a> {
    writer: &'a mut Writer,
    desk: &'a Desk,
}

impl Hand for AtDesk<'_> {
    fn run(&mut self, index: usize, invocation: &Invocation, tx: &Tx) -> ControlFlow<Reply, Reply> {
        self.writer.run(self.desk, index, invocation, tx)
    }

    fn more(&mut self, present: usize) -> Vec<Arc<Invocation>> {
        let jobs: Vec<Job> = self.writer.more(self.desk, present).collect();
        let invocations = jobs.iter().map(|job| job.invocation.clone()).collect();
        lock(&self.desk.backlog).extend(jobs);
        invocations
    }
}

/// How long a thread waits for more, which ran the last invocation then.
fn stay(idle: Duration, called: Option<Instant>) -> Duration {
    called.map_or(Duration::ZERO, |at| idle.saturating_sub(at.elapsed())).max(BRIEFLY.min(idle))
}

/// Takes the jobs at these places from the backlog, with their replies.
fn decided(desk: &Desk, replies: Vec<(usize, Reply)>) -> Vec<(Job, Reply)> {
    let mut replies = replies.into_iter().peekable();
    let mut decided = Vec::new();
    let mut backlog = lock(&desk.backlog);
    let jobs = std::mem::take(&mut *backlog);
    for (index, job) in jobs.into_iter().enumerate() {
        match replies.next_if(|(place, _)| *place == index) {
            Some((_, reply)) => decided.push((job, reply)),
            None => backlog.push(job),
        }
    }
    decided
}

/// Sends jobs their replies.
fn answer(answered: Vec<(Job, Reply)>, runtime: Option<&tokio::runtime::Handle>) {
    // To wake one that wakes the others costs less than to wake them all from here; one or two get it sooner so.
    let elsewhere = runtime.filter(|_| answered.len() > 2);
    let here = |(job, _): &(Job, Reply)| elsewhere.is_none() || matches!(job.reply, Answer::Host(_));
    let (here, there): (Vec<_>, Vec<_>) = answered.into_iter().partition(here);
    let send = |answered: Vec<(Job, Reply)>| answered.into_iter().for_each(|(job, reply)| job.answer(reply));
    send(here);
    if let Some(runtime) = elsewhere.filter(|_| !there.is_empty()) {
        runtime.spawn(async move { send(there) });
    }
}

/// Answers without doing it.
pub(super) fn refuse(work: Work, failure: &Failure) {
    match work {
        Work::Invoke(job) => job.refuse(failure),
        // Dropping it tells who waits.
        Work::Exclusive(work) => drop(work),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn thread_that_ran_no_invocation_stays_briefly() {
        assert_eq!(stay(MINUTE, None), BRIEFLY);
        assert_eq!(stay(Duration::from_millis(5), None), Duration::from_millis(5));
    }

    #[test]
    fn thread_stays_for_as_long_as_is_set_after_an_invocation() {
        let stays = stay(MINUTE, Some(Instant::now()));
        assert!(stays > MINUTE / 2 && stays <= MINUTE, "{stays:?}");
        let long_ago = Instant::now().checked_sub(MINUTE * 2);
        assert_eq!(stay(MINUTE, long_ago), BRIEFLY);
    }
}
