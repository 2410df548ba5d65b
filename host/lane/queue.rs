//! What waits in a lane, in turns: each tenant's calls in their order, and of the tenants one call after the other,
//! so that one with a thousand calls waiting does not keep another's first call waiting.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What can wait here.
pub(super) trait Whose {
    /// The tenant in whose turn this comes; `""` for the host's own work, which is never pushed out.
    fn tenant(&self) -> &str;
}

/// A bounded queue for many senders and receivers.
pub(super) struct Queue<T> {
    state: Mutex<State<T>>,
    arrived: Condvar,
    /// Items that may wait in all.
    room: usize,
}

struct State<T> {
    /// Only tenants with something that waits.
    waiting: HashMap<Arc<str>, VecDeque<T>>,
    turns: VecDeque<Arc<str>>,
    length: usize,
    sleepers: usize,
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
        let (waiting, turns) = (HashMap::new(), VecDeque::new());
        let state = Mutex::new(State { waiting, turns, length: 0, sleepers: 0, closed: false });
        Arc::new(Self { state, arrived: Condvar::new(), room })
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts an item in. As long as there is room a tenant may take all of it; once there is none, those with most
    /// give way to those with less.
    pub fn put(&self, item: T) -> Put<T> {
        let mut state = self.lock();
        let mut put = Put::Waits;
        if state.length >= self.room {
            match state.make_room_for(item.tenant()) {
                Some(pushed_out) => put = Put::Instead(pushed_out),
                None => return Put::Full(item),
            }
        }
        state.put(item);
        // Waking costs a call of the operating system, so only where somebody sleeps.
        if state.sleepers > 0 {
            drop(state);
            self.arrived.notify_one();
        }
        put
    }

    /// Takes the next item, waiting for one for `idle` at most.
    pub fn take(&self, idle: Duration) -> Taken<T> {
        let mut state = self.lock();
        let until = Instant::now().checked_add(idle);
        loop {
            if let Some(item) = state.take() {
                return Taken::Item(item);
            }
            if state.closed {
                return Taken::Closed;
            }
            // Without an end where it is beyond what the clock can tell.
            let left = until.map_or(idle, |until| until.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return Taken::Idle;
            }
            state.sleepers += 1;
            state = self.arrived.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
            state.sleepers -= 1;
        }
    }

    /// Takes the next item if there is one.
    pub fn try_take(&self) -> Option<T> {
        self.lock().take()
    }

    /// Whether one more receiver would find work sooner than those that are there: something waits, or nobody listens.
    pub fn is_short_handed(&self) -> bool {
        let state = self.lock();
        state.length > 0 || state.sleepers == 0
    }

    /// How many items wait.
    pub fn len(&self) -> usize {
        self.lock().length
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Says that nothing more will come. What waits can still be taken.
    pub fn close(&self) {
        self.lock().closed = true;
        self.arrived.notify_all();
    }

    /// Closes the queue and drops what waits, where nobody is left to take it.
    pub fn abandon(&self) {
        self.close();
        let waiting = {
            let mut state = self.lock();
            state.length = 0;
            state.turns.clear();
            std::mem::take(&mut state.waiting)
        };
        // Outside the lock: whoever waits for an item hears of it now.
        drop(waiting);
    }
}

impl<T: Whose> State<T> {
    fn put(&mut self, item: T) {
        self.length += 1;
        if let Some(waiting) = self.waiting.get_mut(item.tenant()) {
            waiting.push_back(item);
            return;
        }
        let tenant: Arc<str> = item.tenant().into();
        self.turns.push_back(tenant.clone());
        self.waiting.insert(tenant, VecDeque::from([item]));
    }

    fn take(&mut self) -> Option<T> {
        let tenant = self.turns.pop_front()?;
        let waiting = self.waiting.get_mut(&tenant)?;
        let item = waiting.pop_front()?;
        self.length -= 1;
        if waiting.is_empty() {
            self.waiting.remove(&tenant);
        } else {
            self.turns.push_back(tenant);
        }
        Some(item)
    }

    /// Takes the last item of the tenant with most waiting, if that is at least two more than `tenant` has.
    fn make_room_for(&mut self, tenant: &str) -> Option<T> {
        let own = self.waiting.get(tenant).map_or(0, VecDeque::len);
        let others = self.waiting.iter_mut().filter(|(name, _)| !name.is_empty());
        let (_, most) = others.max_by_key(|(_, waiting)| waiting.len())?;
        // At least one is left after this, so the tenant keeps its turn.
        if most.len() < own + 2 {
            return None;
        }
        self.length -= 1;
        most.pop_back()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::ZERO;
    const HOST: &str = "";

    type Item = (&'static str, i32);

    impl Whose for Item {
        fn tenant(&self) -> &str {
            self.0
        }
    }

    fn fill(queue: &Queue<Item>, tenant: &'static str, count: i32) {
        for number in 0..count {
            assert_eq!(queue.put((tenant, number)), Put::Waits);
        }
    }

    fn all(queue: &Queue<Item>) -> Vec<i32> {
        std::iter::from_fn(|| queue.try_take()).map(|item| item.1).collect()
    }

    #[test]
    fn one_tenants_items_keep_their_order() {
        let queue = Queue::new(10);
        (0..5).for_each(|number| assert_eq!(queue.put(("a", number)), Put::Waits));
        assert_eq!(all(&queue), [0, 1, 2, 3, 4]);
        assert_eq!(queue.take(NOW), Taken::Idle);
    }

    #[test]
    fn tenants_take_turns() {
        let queue = Queue::new(2000);
        fill(&queue, "noisy", 1000);
        fill(&queue, "quiet", 2);
        fill(&queue, "other", 1);
        let first: Vec<_> = (0..6).filter_map(|_| queue.try_take()).collect();
        assert_eq!(first, [("noisy", 0), ("quiet", 0), ("other", 0), ("noisy", 1), ("quiet", 1), ("noisy", 2)]);
        assert_eq!(queue.len(), 997);
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
    fn work_of_the_host_is_not_pushed_out() {
        let queue = Queue::new(3);
        fill(&queue, HOST, 3);
        assert_eq!(queue.put(("a", 3)), Put::Full(("a", 3)));
        assert_eq!(all(&queue), [0, 1, 2]);
        fill(&queue, "a", 3);
        assert_eq!(queue.put((HOST, 9)), Put::Instead(("a", 2)));
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
