//! Threads that run read actions, each with a connection that cannot write.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::again::{Tries, given_up};
use super::kept::KeptEngines;
use super::queue::{Queue, Taken};
use super::watchdog::Desk;
use super::{Broken, Door, Job, Lane, Reply, lock, spawn};
use crate::failure::Failure;
use crate::invoke::{self, Invocation};
use crate::store::{Access, Fate, Tx};

struct Reader {
    lane: Arc<Lane>,
    queue: Arc<Queue<Job>>,
    desk: Option<Arc<Desk>>,
    engines: KeptEngines,
    /// How long the runs of the present job have taken.
    used: Duration,
    /// Whether the watchdog has given this thread's place to another.
    relieved: Arc<AtomicBool>,
}

/// Starts one more reader of a lane. The door is locked by the caller.
pub(super) fn start(lane: &Arc<Lane>, queue: &Arc<Queue<Job>>, door: &mut Door<Job>) -> Result<(), Failure> {
    let (lane, queue) = (lane.clone(), queue.clone());
    spawn(&format!("read {}", lane.plugin), move || {
        let relieved = Arc::default();
        let _broken = Broken {
            lane: lane.clone(),
            door: |lane| &lane.read,
            queue: queue.clone(),
            restart: start,
            relieved: Arc::clone(&relieved),
        };
        // Here, since a script engine never leaves its thread.
        let engines = KeptEngines::default();
        Reader { lane: lane.clone(), queue, desk: None, engines, used: Duration::ZERO, relieved }.work();
        lane.ended.notify_waiters();
    })?;
    door.threads += 1;
    Ok(())
}

impl Reader {
    fn work(&mut self) {
        loop {
            if self.queue.is_empty() {
                self.engines.rest();
            }
            let job = match self.queue.take(self.lane.settings.idle) {
                Taken::Item(job) => job,
                Taken::Idle if !self.may_leave() => continue,
                Taken::Idle => return,
                Taken::Closed => break,
            };
            let desk = match self.desk() {
                Ok(desk) => desk,
                Err(failure) => {
                    job.refuse(&failure);
                    continue;
                }
            };
            let invocation = job.invocation.clone();
            *lock(&desk.backlog) = vec![job];
            let tx = desk.shared.tx();
            self.used = Duration::ZERO;
            let reply = self.persist(&desk, &invocation, &tx);
            if tx.fate() == Fate::Parted {
                // Relieved by the watchdog, which has answered and no longer counts this thread.
                self.lane.stuck.fetch_sub(1, Ordering::Relaxed);
                return;
            }
            // What its run spent is part of its turn.
            let used = self.used + self.engines.mend(&invocation);
            self.queue.settle([], [(invocation.scope.tenant.as_str(), used)]);
            for job in std::mem::take(&mut *lock(&desk.backlog)) {
                job.answer(reply.clone());
            }
        }
        // First, since whoever waits for the threads to end takes the database for closed.
        self.desk = None;
        lock(&self.lane.read).threads -= 1;
    }

    /// Runs it until it does not run into another transaction.
    fn persist(&mut self, desk: &Desk, invocation: &Invocation, tx: &Tx) -> Reply {
        let mut tries = Tries::new(&desk.turn);
        loop {
            let reply = self.run(desk, invocation, tx, tries.again());
            if tx.fate() != Fate::Again {
                return reply;
            }
            if !tries.next(&desk.metrics) {
                return Err(given_up().into());
            }
        }
    }

    /// One run in a read transaction of its own, so that it sees one state of the data throughout.
    fn run(&mut self, desk: &Desk, invocation: &Invocation, tx: &Tx, again: bool) -> Reply {
        let mut engine = self.engines.for_run(invocation)?;
        tx.begin_read(again)?;
        let started = desk.begin(0, invocation.limits.time);
        let reply = invoke::read(invocation, engine.as_deref_mut(), tx);
        desk.end();
        self.used += started.elapsed();
        let reply = self.lane.excused(reply, started);
        self.lane.metrics.ran(started.elapsed(), &engine.map_or_else(Vec::new, |engine| engine.limits_hit()));
        tx.end_read()?;
        reply
    }

    fn desk(&mut self) -> Result<Arc<Desk>, Failure> {
        if let Some(desk) = &self.desk {
            return Ok(desk.clone());
        }
        let shared = self.lane.database.open(Access::Read).map_err(|error| self.lane.closed_database(&error))?;
        let (lane, queue, relieved) = (self.lane.clone(), self.queue.clone(), self.relieved.clone());
        // A reader has no backlog beyond the run that got stuck, but calls may wait that only it would have taken.
        let (metrics, turn) = (self.lane.metrics.clone(), self.lane.turn.clone());
        let desk = Desk::new(shared, metrics, turn, move |left| {
            queue.settle([], [(left.tenant.as_str(), left.used)]);
            let mut door = lock(&lane.read);
            door.threads -= 1;
            relieved.store(true, Ordering::Relaxed);
            lane.stuck.fetch_add(1, Ordering::Relaxed);
            if !queue.is_empty()
                && let Err(failure) = start(&lane, &queue, &mut door)
            {
                tracing::error!(%failure, "no new reader could be started");
            }
            lane.ended.notify_waiters();
        });
        self.lane.settings.watchdog.watch(&desk);
        self.desk = Some(desk.clone());
        Ok(desk)
    }

    /// Ends a reader that has been idle, unless a call came in at the last moment.
    fn may_leave(&self) -> bool {
        let mut door = lock(&self.lane.read);
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
