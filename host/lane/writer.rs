//! The threads that write a plugin's database: one where transactions share a commit, several where each has its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::group::{Parted, commit_together};
use super::queue::{Queue, Taken};
use super::watchdog::Desk;
use super::{Answer, Broken, Door, Job, Lane, Reply, Work, lock, spawn};
use crate::failure::Failure;
use crate::invoke::{self, Invocation};
use crate::lane::kept::KeptEngine;
use crate::store::{Access, Shared, Tx};

/// The most invocations that share a commit.
const GROUP: usize = 256;

/// How long a thread stays after work of the host's own, such as looking at the tables when it starts: no call may follow
/// for long, and a hundred plugins would keep a hundred connections.
const BRIEFLY: Duration = Duration::from_secs(1);

/// What a writer takes over from one that got stuck.
pub(super) type Resumed = (Shared, Vec<Job>);

struct Writer {
    lane: Arc<Lane>,
    queue: Arc<Queue<Work>>,
    desk: Option<Arc<Desk>>,
    engine: KeptEngine,
    /// Whether the watchdog has given this thread's place to another.
    relieved: Arc<AtomicBool>,
}

/// Starts a writer of a lane. The door is locked by the caller.
pub(super) fn start(
    lane: &Arc<Lane>,
    queue: &Arc<Queue<Work>>,
    resumed: Option<Resumed>,
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
        let mut writer = Writer { lane: lane.clone(), queue, desk: None, engine: KeptEngine::default(), relieved };
        let ended = resumed.map_or(Ok(()), |(shared, jobs)| {
            let desk = writer.sit_down(shared);
            writer.serve(&desk, jobs)
        });
        match ended.and_then(|()| writer.work()) {
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
        let mut next = None;
        let mut called = None;
        loop {
            let work = match next.take() {
                Some(work) => work,
                None => match self.queue.take(stay(self.lane.settings.idle, called)) {
                    Taken::Item(work) => work,
                    Taken::Closed => break,
                    Taken::Idle if self.may_leave() => {
                        self.rise();
                        return Ok(());
                    }
                    Taken::Idle => continue,
                },
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
                    let mut jobs = vec![job];
                    while jobs.len() < desk.shared.most_in_a_group(self.lane.talks()).min(GROUP) && next.is_none() {
                        match self.queue.try_take() {
                            Some(Work::Invoke(job)) => jobs.push(job),
                            Some(exclusive @ Work::Exclusive(_)) => next = Some(exclusive),
                            None => break,
                        }
                    }
                    if self.serve(&desk, jobs).is_err() {
                        self.pass_on(next);
                        return Err(Parted);
                    }
                }
            }
        }
        // First, since whoever waits for the threads to end takes the database for closed.
        self.rise();
        lock(&self.lane.write).threads -= 1;
        Ok(())
    }

    /// Runs jobs in groups until all are answered. A job leaves the backlog as soon as its fate is decided, so that
    /// whoever takes over never runs it again.
    fn serve(&mut self, desk: &Arc<Desk>, jobs: Vec<Job>) -> Result<(), Parted> {
        *lock(&desk.backlog) = jobs;
        let mut alone = 0_usize;
        loop {
            let group: Vec<Arc<Invocation>> = {
                let backlog = lock(&desk.backlog);
                let size = if alone > 0 { 1 } else { backlog.len() };
                backlog.iter().take(size).map(|job| job.invocation.clone()).collect()
            };
            if group.is_empty() {
                return Ok(());
            }
            let mut turn = commit_together(desk, &group, alone > 0, &mut |index, invocation, tx| {
                self.run(desk, index, invocation, tx)
            })?;
            self.lane.settings.committed.nudge(&self.lane.plugin);
            crate::crash_point!("before-replies");
            alone = alone.saturating_sub(1) + turn.alone;
            let wakes = turn.wakes();
            // What nobody else holds is then put away where the replies are sent.
            drop(group);
            answer(desk, turn.replies, self.lane.settings.runtime.as_ref());
            if let Some(wakes) = wakes {
                self.lane.settings.after.committed(&self.lane.plugin, wakes);
            }
            if let Some(failure) = turn.shut {
                self.refuse_all(&failure);
            }
        }
    }

    /// Refuses all that waits, since each try may take as long as a lock is waited for.
    fn refuse_all(&self, failure: &Failure) {
        while let Some(work) = self.queue.try_take() {
            refuse(work, failure);
        }
    }

    fn run(&mut self, desk: &Desk, index: usize, invocation: &Invocation, tx: &Tx) -> Reply {
        let mut engine = self.engine.for_run(invocation)?;
        let started = desk.begin(index, invocation.limits.time);
        // What others held until now was no time of its own.
        let claimed = || _ = desk.begin(index, invocation.limits.time);
        let reply = invoke::invoke(invocation, engine.as_deref_mut(), tx, self.lane.settings.clock.now(), &claimed);
        desk.end();
        let reply = self.lane.excused(reply, started);
        if let Some(talked) = tx.talked() {
            self.lane.talked(talked);
        }
        if let Some(engine) = engine
            && !matches!(&reply, Ok(outcome) if outcome.replayed)
        {
            self.lane.metrics.ran(started.elapsed(), &engine.limits_hit());
        }
        reply
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
        let desk = Desk::new(shared, metrics, turn, move |jobs| {
            let mut door = lock(&lane.write);
            // The stuck thread no longer counts as one that works.
            relieved.store(true, Ordering::Relaxed);
            lane.stuck.fetch_add(1, Ordering::Relaxed);
            door.threads -= 1;
            if let Err(failure) = start(&lane, &queue, Some((connection.clone(), jobs)), &mut door) {
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

    /// Gives back what was taken from the queue by a writer that was relieved.
    fn pass_on(&self, work: Option<Work>) {
        if let Some(work) = work
            && let Err(failure) = self.lane.send_write(work)
        {
            tracing::warn!(%failure, "work of a stuck writer could not be passed on");
        }
    }
}

/// How long a thread waits for more, which ran the last invocation then.
fn stay(idle: Duration, called: Option<Instant>) -> Duration {
    called.map_or(Duration::ZERO, |at| idle.saturating_sub(at.elapsed())).max(BRIEFLY.min(idle))
}

/// Takes the jobs at these places from the backlog and sends their replies.
fn answer(desk: &Desk, replies: Vec<(usize, Reply)>, runtime: Option<&tokio::runtime::Handle>) {
    let mut replies = replies.into_iter().peekable();
    let mut answered = Vec::new();
    {
        let mut backlog = lock(&desk.backlog);
        let jobs = std::mem::take(&mut *backlog);
        for (index, job) in jobs.into_iter().enumerate() {
            match replies.next_if(|(place, _)| *place == index) {
                Some((_, reply)) => answered.push((job, reply)),
                None => backlog.push(job),
            }
        }
    }
    // To wake one that wakes the others costs less than to wake them all from here; one or two get it sooner so.
    let elsewhere = runtime.filter(|_| answered.len() > 2);
    let here = |(job, _): &(Job, Reply)| elsewhere.is_none() || matches!(job.reply, Answer::Host(_));
    let (here, there): (Vec<_>, Vec<_>) = answered.into_iter().partition(here);
    let send = |answered: Vec<(Job, Reply)>| answered.into_iter().for_each(|(job, reply)| job.reply.send(reply));
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
