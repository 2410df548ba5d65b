//! Threads that run read actions, each with a connection that cannot write.

use std::sync::Arc;

use crossbeam_channel::{Receiver, RecvTimeoutError};

use super::kept::KeptEngine;
use super::watchdog::Desk;
use super::{Broken, Door, Job, Lane, Reply, lock, spawn};
use crate::failure::Failure;
use crate::invoke::{self, Invocation};
use crate::store::sqlite::{Access, Shared, Tx, fault};

struct Reader {
    lane: Arc<Lane>,
    queue: Receiver<Job>,
    desk: Option<Arc<Desk>>,
    engine: KeptEngine,
}

/// Starts one more reader of a lane. The door is locked by the caller.
pub(super) fn start(lane: &Arc<Lane>, queue: &Receiver<Job>, door: &mut Door<Job>) -> Result<(), Failure> {
    let (lane, queue) = (lane.clone(), queue.clone());
    spawn(&format!("read {}", lane.plugin), move || {
        let _broken = Broken(&lane.read);
        // Here, since a script engine never leaves its thread.
        Reader { lane: lane.clone(), queue, desk: None, engine: KeptEngine::default() }.work();
        lane.ended.notify_waiters();
    })?;
    door.threads += 1;
    Ok(())
}

impl Reader {
    fn work(&mut self) {
        loop {
            let job = match self.queue.recv_timeout(self.lane.settings.idle) {
                Ok(job) => job,
                Err(RecvTimeoutError::Timeout) if !self.queue.is_empty() => continue,
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
            };
            let desk = match self.desk() {
                Ok(desk) => desk,
                Err(failure) => {
                    // Who asked may have gone away.
                    let _ = job.reply.send(Err(failure.into()));
                    continue;
                }
            };
            let invocation = job.invocation.clone();
            *lock(&desk.backlog) = vec![job];
            let tx = Tx::new(&desk.shared);
            let reply = self.run(&desk, &invocation, &tx);
            if !tx.is_current() {
                // Relieved by the watchdog, which has answered and no longer counts this thread.
                return;
            }
            for job in std::mem::take(&mut *lock(&desk.backlog)) {
                let _ = job.reply.send(reply.clone());
            }
        }
        self.leave();
    }

    /// One run in a read transaction of its own, so that it sees one state of the data throughout.
    fn run(&mut self, desk: &Desk, invocation: &Invocation, tx: &Tx) -> Reply {
        let engine = self.engine.for_run(invocation)?;
        desk.shared.lock().execute_batch("BEGIN").map_err(|error| Failure::from(fault(&error)))?;
        let started = desk.begin(0, invocation.limits.time);
        let reply = invoke::read(invocation, engine, tx);
        desk.end();
        self.lane.metrics.ran(started.elapsed());
        let connection = desk.shared.lock();
        if tx.is_current() && !connection.is_autocommit() {
            connection.execute_batch("COMMIT").map_err(|error| Failure::from(fault(&error)))?;
        }
        reply
    }

    fn desk(&mut self) -> Result<Arc<Desk>, Failure> {
        if let Some(desk) = &self.desk {
            return Ok(desk.clone());
        }
        let shared = Shared::open(&self.lane.path, Access::Read).map_err(|error| self.lane.closed_database(&error))?;
        let lane = self.lane.clone();
        // A reader has no backlog beyond the run that got stuck; the next call starts a new one.
        let desk = Desk::new(shared, self.lane.metrics.clone(), move |_| lock(&lane.read).threads -= 1);
        self.lane.settings.watchdog.watch(&desk);
        self.desk = Some(desk.clone());
        Ok(desk)
    }

    fn leave(&self) {
        let mut door = lock(&self.lane.read);
        door.threads -= 1;
        if door.threads == 0 && self.queue.is_empty() {
            door.sender = None;
            door.queue = None;
        }
    }
}
