//! What waits in a lane, for many senders and receivers; `turns` says whose turn it is.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::turns::{Turns, Whose};

/// A bounded queue.
pub(super) struct Queue<T> {
    state: Mutex<State<T>>,
    arrived: Condvar,
    /// Items that may wait in all.
    room: usize,
}

struct State<T> {
    turns: Turns<T>,
    sleepers: usize,
    /// Whether a receiver waits for another item than the next one. One at a time is enough.
    patient: bool,
    closed: bool,
}

/// What a receiver got.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Taken<T> {
    Item(T),
    /// Nothing came in for long enough.
    Idle,
    /// Nothing is left, and nothing will come.
    Closed,
}

/// What became of an item that was to be put in.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Put<T> {
    Waits,
    /// It waits, and this one, the last of the tenant with most waiting, had to make room for it.
    Instead(T),
    /// There is no room: as many wait as may, and nobody has more of them than this tenant (or one more at most).
    Full(T),
}

impl<T: Whose> Queue<T> {
    pub fn new(room: usize) -> Arc<Self> {
        let state = State { turns: Turns::default(), sleepers: 0, patient: false, closed: false };
        Arc::new(Self { state: Mutex::new(state), arrived: Condvar::new(), room })
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts an item in. As long as there is room a tenant may take all of it; once there is none, those with most
    /// give way to those with less.
    pub fn put(&self, item: T) -> Put<T> {
        let mut state = self.lock();
        let mut put = Put::Waits;
        if state.turns.len() >= self.room {
            match state.turns.make_room_for(item.tenant()) {
                Some(pushed_out) => put = Put::Instead(pushed_out),
                None => return Put::Full(item),
            }
        }
        state.turns.put(item);
        // Waking costs a call of the operating system, so only where somebody sleeps.
        if state.sleepers > 0 {
            drop(state);
            self.arrived.notify_one();
        }
        put
    }

    /// Gives back what was taken, in the order in which it was, and not done; then says whose runs took how long.
    pub fn settle<'a>(
        &self,
        back: impl IntoIterator<Item = T, IntoIter: DoubleEndedIterator>,
        used: impl IntoIterator<Item = (&'a str, Duration)>,
    ) {
        let mut state = self.lock();
        let before = state.turns.len();
        // First, so that those who still wait are known when the others' time counts.
        state.turns.give_back(back.into_iter());
        used.into_iter().for_each(|(tenant, time)| state.turns.used(tenant, time));
        if state.turns.len() > before && state.sleepers > 0 {
            drop(state);
            self.arrived.notify_all();
        }
    }

    /// Takes the next item, waiting for one for `idle` at most.
    pub fn take(&self, idle: Duration) -> Taken<T> {
        let mut state = self.lock();
        let began = Instant::now();
        loop {
            let next = state.turns.next().is_some();
            let patience = if state.patient || state.closed { Duration::ZERO } else { state.turns.patience() };
            let patient = !patience.is_zero();
            // An end that is beyond what the clock can tell never comes.
            let left = || if patient { patience } else { idle }.saturating_sub(began.elapsed());
            if next && (!patient || left().is_zero()) {
                return state.turns.take().map_or(Taken::Closed, Taken::Item);
            }
            if state.closed {
                return Taken::Closed;
            }
            let left = left();
            if !next && left.is_zero() {
                return Taken::Idle;
            }
            state.sleepers += 1;
            state.patient |= patient;
            state = self.arrived.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
            state.patient &= !patient;
            state.sleepers -= 1;
        }
    }

    /// Takes what comes next, `most` items, as long as it is fit to be done together with what was taken just before, and
    /// need not wait for others.
    pub fn take_more(&self, most: usize, fit: impl Fn(&T) -> bool) -> Vec<T> {
        let turns = &mut self.lock().turns;
        let mut taken = Vec::new();
        while taken.len() < most && turns.next().is_some_and(&fit) && turns.patience().is_zero() {
            taken.extend(turns.take());
        }
        taken
    }

    /// How many items wait.
    pub fn len(&self) -> usize {
        self.lock().turns.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Says that nothing more will come. What waits can still be taken.
    pub fn close(&self) {
        self.lock().closed = true;
        self.arrived.notify_all();
    }

    /// Takes all that waits.
    pub fn drain(&self) -> Vec<T> {
        let turns = &mut self.lock().turns;
        std::iter::from_fn(|| turns.take()).collect()
    }

    /// Closes the queue and drops what waits, where nobody is left to take it.
    pub fn abandon(&self) {
        self.close();
        // Outside the lock: whoever waits for an item hears of it now.
        drop(self.drain());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::ZERO;

    type Item = (&'static str, i32);

    fn fill(queue: &Queue<Item>, tenant: &'static str, count: i32) {
        for number in 0..count {
            assert_eq!(queue.put((tenant, number)), Put::Waits);
        }
    }

    fn all(queue: &Queue<Item>) -> Vec<i32> {
        queue.drain().into_iter().map(|item| item.1).collect()
    }

    #[test]
    fn one_tenants_items_keep_their_order() {
        let queue = Queue::new(10);
        (0..5).for_each(|number| assert_eq!(queue.put(("a", number)), Put::Waits));
        assert_eq!(all(&queue), [0, 1, 2, 3, 4]);
        assert_eq!(queue.take(NOW), Taken::Idle);
    }

    #[test]
    fn alone_a_tenant_may_take_all_the_room_and_no_more() {
        let queue = Queue::new(3);
        (0..3).for_each(|number| assert_eq!(queue.put(("a", number)), Put::Waits));
        assert_eq!(queue.put(("a", 3)), Put::Full(("a", 3)));
        assert_eq!(all(&queue), [0, 1, 2]);
    }

    #[test]
    fn tenant_with_most_gives_way_until_all_have_as_much() {
        let queue = Queue::new(6);
        fill(&queue, "noisy", 6);
        assert_eq!(queue.put(("quiet", 10)), Put::Instead(("noisy", 5)));
        assert_eq!(queue.put(("quiet", 11)), Put::Instead(("noisy", 4)));
        assert_eq!(queue.put(("quiet", 12)), Put::Instead(("noisy", 3)));
        assert_eq!(queue.put(("quiet", 13)), Put::Full(("quiet", 13)));
        assert_eq!(queue.put(("noisy", 14)), Put::Full(("noisy", 14)));
        assert_eq!(queue.len(), 6);
        assert_eq!(all(&queue), [0, 10, 1, 11, 2, 12]);
    }

    #[test]
    fn closed_queue_gives_what_it_has_and_then_ends() {
        let queue = Queue::new(3);
        queue.put(("a", 1));
        queue.close();
        assert_eq!(queue.take(Duration::from_secs(60)), Taken::Item(("a", 1)));
        assert_eq!(queue.take(Duration::from_secs(60)), Taken::Closed);
    }

    #[test]
    fn abandoned_queue_drops_what_waits() {
        let queue = Queue::new(3);
        queue.put(("a", 1));
        queue.abandon();
        assert_eq!((queue.len(), queue.take(NOW)), (0, Taken::Closed));
    }

    #[test]
    fn what_is_fit_is_taken_together_up_to_the_first_that_is_not() {
        let queue = Queue::new(10);
        fill(&queue, "a", 4);
        fill(&queue, "b", 1);
        assert_eq!(queue.take_more(2, |item| item.1 < 2), [("a", 0), ("b", 0)]);
        assert_eq!(queue.take_more(9, |item| item.1 < 2), [("a", 1)]);
        assert_eq!((queue.len(), queue.take(NOW)), (2, Taken::Item(("a", 2))));
    }

    #[test]
    fn dear_runs_are_not_taken_together_with_those_of_who_used_less() {
        let queue = Queue::new(10);
        fill(&queue, "dear", 3);
        fill(&queue, "cheap", 2);
        let taken = queue.take_more(3, |_| true);
        assert_eq!(taken, [("dear", 0), ("cheap", 0), ("dear", 1)]);
        queue.settle(taken.into_iter().skip(1), [("dear", Duration::from_millis(100))]);
        assert_eq!(queue.take_more(9, |_| true), [("cheap", 0), ("cheap", 1)]);
        assert_eq!(queue.len(), 2);
        assert_eq!(queue.take(NOW), Taken::Item(("dear", 1)), "after a wait in vain");
    }

    #[test]
    fn who_comes_back_in_time_comes_before_a_dear_run() {
        let queue = Queue::new(10);
        fill(&queue, "dear", 2);
        fill(&queue, "cheap", 1);
        let taken = queue.take_more(2, |_| true);
        // So much that the wait is as long as it gets.
        queue.settle([], [("dear", Duration::from_secs(3600))]);
        assert_eq!(taken, [("dear", 0), ("cheap", 0)]);
        let got = std::thread::scope(|scope| {
            let taker = scope.spawn(|| queue.take(NOW));
            while queue.lock().sleepers == 0 && !taker.is_finished() {
                std::thread::yield_now();
            }
            let in_time = {
                let mut state = queue.lock();
                state.turns.put(("cheap", 1));
                // Unless this thread had no processor for so long.
                state.patient
            };
            queue.arrived.notify_one();
            (taker.join().unwrap(), in_time)
        });
        assert!(got.0 == Taken::Item(("cheap", 1)) || !got.1, "{got:?}");
    }

    #[test]
    fn closed_queue_waits_for_nobody() {
        let queue = Queue::new(10);
        fill(&queue, "dear", 2);
        fill(&queue, "cheap", 1);
        queue.take_more(2, |_| true);
        queue.settle([], [("dear", Duration::from_secs(3600))]);
        queue.close();
        assert_eq!(queue.take(NOW), Taken::Item(("dear", 1)));
        assert_eq!(queue.take(NOW), Taken::Closed);
    }

    #[test]
    fn sleepers_wake_for_items_and_for_the_end() {
        let queue = Queue::new(100_000);
        let queue = &*queue;
        let taken = std::thread::scope(|scope| {
            let takers: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        let mut taken = 0_usize;
                        while let Taken::Item(_) = queue.take(Duration::from_secs(60)) {
                            taken += 1;
                        }
                        taken
                    })
                })
                .collect();
            let putters: Vec<_> = ["a", "b", "c"].map(|tenant| scope.spawn(move || fill(queue, tenant, 5000))).into();
            putters.into_iter().for_each(|putter| putter.join().unwrap());
            queue.close();
            takers.into_iter().map(|taker| taker.join().unwrap()).sum::<usize>()
        });
        assert_eq!(taken, 15_000);
    }
}
