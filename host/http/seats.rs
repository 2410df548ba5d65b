//! Places for connections. Where all are taken, who has been silent for longest gives up his, so that connections on
//! which nothing is asked keep nobody out. Streams of notifications take at most half of them.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use crate::failure::{Code, Failure};

/// How long whoever was asked for his place may take, before another is asked too: he may be at something.
const PATIENCE: Duration = Duration::from_millis(200);
/// How long somebody has been silent before he is asked: who came a moment ago may only not have been read yet.
const SILENT: Duration = Duration::from_secs(1);
/// How often it is told that places run short.
const TELL_EVERY: Duration = Duration::from_secs(60);

/// All places of one listener.
pub(super) struct Seats {
    most: usize,
    free: Arc<Semaphore>,
    taken: Mutex<BTreeMap<u64, Arc<Seat>>>,
    next: AtomicU64,
    begun: Instant,
    told: Mutex<Option<Instant>>,
}

/// One place, as its connection and those who want it see it.
pub(super) struct Seat {
    /// Microseconds since the listener began.
    heard: AtomicU64,
    /// A request's head has come, so that something may be under way.
    begun: AtomicBool,
    asked: AtomicBool,
    ask: Notify,
    epoch: Instant,
}

/// A place that is given back when this is dropped.
pub(super) struct Taken {
    pub seat: Arc<Seat>,
    number: u64,
    seats: Arc<Seats>,
    _permit: OwnedSemaphorePermit,
}

impl Seats {
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self {
            most,
            free: Arc::new(Semaphore::new(most)),
            taken: Mutex::default(),
            next: AtomicU64::new(0),
            begun: Instant::now(),
            told: Mutex::default(),
        })
    }

    /// A place, as soon as one is free. May be given up at any time.
    pub(super) async fn take(self: &Arc<Self>) -> Taken {
        loop {
            if let Ok(permit) = self.free.clone().try_acquire_owned() {
                return self.taken(permit);
            }
            self.ask_for_one(micros(self.begun.elapsed()));
            let freed = tokio::time::timeout(PATIENCE, self.free.clone().acquire_owned());
            if let Ok(Ok(permit)) = freed.await {
                return self.taken(permit);
            }
        }
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Seat>>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn taken(self: &Arc<Self>, permit: OwnedSemaphorePermit) -> Taken {
        let seat = Seat {
            heard: AtomicU64::new(0),
            begun: AtomicBool::new(false),
            asked: AtomicBool::new(false),
            ask: Notify::new(),
            epoch: self.begun,
        };
        let seat = Arc::new(seat);
        seat.hear(false);
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let mut all = self.all();
        all.insert(number, seat.clone());
        let open = all.len();
        drop(all);
        if open * 10 >= self.most * 9 {
            self.tell(open);
        }
        Taken { seat, number, seats: self.clone(), _permit: permit }
    }

    /// Asks who has been silent for longest, of those who were not asked yet and have been silent for some time. `now` is in
    /// microseconds since the listener began.
    fn ask_for_one(&self, now: u64) {
        let all = self.all();
        let silent = |seat: &&Arc<Seat>| seat.heard.load(Ordering::Relaxed).saturating_add(micros(SILENT)) <= now;
        let open = all.values().filter(|seat| !seat.asked.load(Ordering::Relaxed)).filter(silent);
        if let Some(seat) = open.min_by_key(|seat| seat.heard.load(Ordering::Relaxed)) {
            seat.asked.store(true, Ordering::Relaxed);
            seat.ask.notify_one();
        }
    }

    /// Says now and then that places run short.
    fn tell(&self, open: usize) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.is_none_or(|told| told.elapsed() >= TELL_EVERY) {
            *told = Some(Instant::now());
            tracing::warn!(
                open,
                most = self.most,
                "connections run short: where all are taken, the one that has been silent for longest is closed (the setting \
                 connections; ulimit -n)"
            );
        }
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl Seat {
    /// Bytes came; `head` says that they were the end of a head at least.
    pub(super) fn hear(&self, head: bool) {
        self.heard.store(micros(self.epoch.elapsed()), Ordering::Relaxed);
        if head {
            self.begun.store(true, Ordering::Relaxed);
        }
    }

    /// Whether a request may be under way.
    pub(super) fn has_begun(&self) -> bool {
        self.begun.load(Ordering::Relaxed)
    }

    /// Ends when the place is wanted.
    pub(super) async fn wanted(&self) {
        self.ask.notified().await;
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.seats.all().remove(&self.number);
    }
}

/// The streams of notifications that are open.
pub(super) struct Streams {
    /// Of all tenants.
    most: usize,
    of_tenant: usize,
    open: Mutex<HashMap<String, usize>>,
}

/// One stream, counted until this is dropped.
pub(super) struct Open {
    streams: Arc<Streams>,
    tenant: String,
}

impl Streams {
    /// `most` at one time, and of each tenant `of_tenant`.
    pub(super) fn new(most: usize, of_tenant: usize) -> Arc<Self> {
        Arc::new(Self { most: most.max(1), of_tenant, open: Mutex::default() })
    }

    fn all(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts one more.
    ///
    /// # Errors
    /// `RATE_LIMITED` where the tenant has as many as it may, `OVERLOADED` where the host has.
    pub(super) fn open(self: &Arc<Self>, tenant: &str) -> Result<Open, Failure> {
        let mut all = self.all();
        let own = all.get(tenant).copied().unwrap_or(0);
        if own >= self.of_tenant {
            let text = format!(
                "the tenant has {own} streams of notifications open, and may have no more (the setting streams): close some, \
                 or listen to several topics with one"
            );
            return Err(Failure::new(Code::RateLimited, text));
        }
        if all.values().sum::<usize>() >= self.most {
            let text = format!(
                "{} streams of notifications are open, and the other connections are kept for calls: try again later, or \
                 raise the setting connections",
                self.most
            );
            return Err(Failure::new(Code::Overloaded, text));
        }
        *all.entry(tenant.to_owned()).or_default() += 1;
        Ok(Open { streams: self.clone(), tenant: tenant.to_owned() })
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let mut all = self.streams.all();
        if let Some(own) = all.get_mut(&self.tenant) {
            *own -= 1;
            if *own == 0 {
                all.remove(&self.tenant);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_counted_by_tenant_and_together() {
        let streams = Streams::new(3, 2);
        let first = streams.open("acme").unwrap();
        let _second = streams.open("acme").unwrap();
        let code = |tenant: &str| streams.open(tenant).err().map(|failure| (failure.code, failure.retry_after));
        assert_eq!(code("acme"), Some((Code::RateLimited, Some(1))));
        let _third = streams.open("blue").unwrap();
        assert_eq!(code("blue"), Some((Code::Overloaded, Some(1))));
        drop(first);
        assert_eq!(code("blue"), None, "one that was closed makes room");
    }

    #[tokio::test]
    async fn silent_for_longest_is_asked_first_and_once() {
        let seats = Seats::new(2);
        let (first, second) = (seats.take().await, seats.take().await);
        first.seat.heard.store(9, Ordering::Relaxed);
        second.seat.heard.store(5, Ordering::Relaxed);
        let now = micros(SILENT) + 7;
        seats.ask_for_one(now);
        second.seat.wanted().await;
        seats.ask_for_one(now);
        let asked = |of: &Taken| of.seat.asked.load(Ordering::Relaxed);
        assert!(!asked(&first), "it was heard a moment ago");
        seats.ask_for_one(now + 2);
        first.seat.wanted().await;
        drop(second);
        assert_eq!(seats.take().await.number, 2, "what was given up is there for the next");
    }
}
