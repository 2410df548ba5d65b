//! Long work on the few threads that read and write for clients.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread::available_parallelism;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Semaphore;

/// Bytes of JSON that take long: to be read, checked and hashed, about a millisecond.
pub const LONG: usize = 64 << 10;

/// The line of those whose tenant is not known yet.
pub const ANYBODY: &str = "";

/// As much at a time as there are processors: more would be no faster, and what each makes of a request takes memory.
static PLACES: LazyLock<Semaphore> = LazyLock::new(|| Semaphore::new(places()));

/// By tenant: how many are in its line, and the turns of it.
static LINES: Mutex<BTreeMap<String, (usize, Arc<Semaphore>)>> = Mutex::new(BTreeMap::new());

fn places() -> usize {
    available_parallelism().map_or(1, usize::from)
}

fn lines() -> MutexGuard<'static, BTreeMap<String, (usize, Arc<Semaphore>)>> {
    LINES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Does `work`. Where it takes long, it waits for its turn, and another thread takes the place of this one meanwhile, so
/// that the other clients are served. Tenants have turns: of each, as many stand before those of others as there are
/// places.
pub async fn aside<R>(takes_long: bool, tenant: &str, work: impl FnOnce() -> R) -> R {
    if !takes_long {
        return work();
    }
    let line = Line::of(tenant);
    // Nobody closes them.
    let _turn = line.turns.acquire().await;
    let _place = PLACES.acquire().await;
    let others_serve = Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread;
    if others_serve { tokio::task::block_in_place(work) } else { work() }
}

/// A place in a tenant's line.
struct Line<'t> {
    tenant: &'t str,
    turns: Arc<Semaphore>,
}

impl<'t> Line<'t> {
    fn of(tenant: &'t str) -> Self {
        let mut lines = lines();
        let new = || (0, Arc::new(Semaphore::new(places())));
        let (length, turns) = lines.entry(tenant.to_owned()).or_insert_with(new);
        *length += 1;
        Self { tenant, turns: turns.clone() }
    }
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        let mut lines = lines();
        let Some((length, _)) = lines.get_mut(self.tenant) else { return };
        *length -= 1;
        if *length == 0 {
            lines.remove(self.tenant);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use tokio::task::JoinSet;

    use super::*;

    /// The places are everybody's.
    static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

    #[test]
    fn others_go_on_beside_long_work_where_one_thread_serves() {
        let _alone = ALONE.blocking_lock();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let (done, wait) = std::sync::mpsc::channel();
        let long = runtime.spawn(async move {
            Handle::current().spawn(async move { done.send(()).unwrap() });
            aside(true, ANYBODY, move || wait.recv_timeout(Duration::from_secs(60))).await
        });
        assert_eq!(runtime.block_on(long).unwrap(), Ok(()));
    }

    #[test]
    fn no_more_is_done_at_a_time_than_there_are_processors() {
        let _alone = ALONE.blocking_lock();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let work = || {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            std::thread::yield_now();
            now.fetch_sub(1, Ordering::SeqCst);
        };
        std::thread::scope(|scope| {
            let one = || (0..50).for_each(|_| runtime.block_on(aside(true, ANYBODY, work)));
            (0..16).for_each(|_| drop(scope.spawn(one)));
        });
        let most = most.into_inner();
        assert!(most <= places(), "{most}");
    }

    #[tokio::test]
    async fn tenants_have_turns() {
        let _alone = ALONE.lock().await;
        let order = Arc::new(Mutex::new(Vec::new()));
        let all = PLACES.acquire_many(u32::try_from(places()).unwrap()).await.unwrap();
        let mut calls = JoinSet::new();
        for tenant in [vec!["many"; 4 * places()], vec!["one"]].concat() {
            let order = order.clone();
            calls.spawn(async move { aside(true, tenant, || order.lock().unwrap().push(tenant)).await });
        }
        tokio::task::yield_now().await;
        drop(all);
        calls.join_all().await;
        let order = order.lock().unwrap();
        let before = order.iter().position(|tenant| *tenant == "one").unwrap();
        assert!(before <= places() && order.len() == 1 + 4 * places(), "{order:?}");
        assert!(!lines().contains_key("many") && !lines().contains_key("one"));
    }

    #[tokio::test]
    async fn work_is_done_where_there_is_no_other_thread() {
        let _alone = ALONE.lock().await;
        assert_eq!(aside(true, ANYBODY, || 1).await, 1);
    }
}
