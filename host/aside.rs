//! Long work on the few threads that read and write for clients.

use std::sync::LazyLock;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Semaphore;

/// Bytes of JSON that take long: to be read, checked and hashed, about a millisecond.
pub const LONG: usize = 64 << 10;

/// As much at a time as there are processors: more would be no faster, and what each makes of a request takes memory.
static PLACES: LazyLock<Semaphore> =
    LazyLock::new(|| Semaphore::new(std::thread::available_parallelism().map_or(1, usize::from)));

/// Does `work`. Where it takes long, it waits for its turn, and another thread takes the place of this one meanwhile, so
/// that the other clients are served.
pub async fn aside<R>(takes_long: bool, work: impl FnOnce() -> R) -> R {
    if !takes_long {
        return work();
    }
    // Nobody closes it.
    let _place = PLACES.acquire().await;
    let others_serve = Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread;
    if others_serve { tokio::task::block_in_place(work) } else { work() }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;

    #[test]
    fn others_go_on_beside_long_work_where_one_thread_serves() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let (done, wait) = std::sync::mpsc::channel();
        let long = runtime.spawn(async move {
            Handle::current().spawn(async move { done.send(()).unwrap() });
            aside(true, move || wait.recv_timeout(Duration::from_secs(60))).await
        });
        assert_eq!(runtime.block_on(long).unwrap(), Ok(()));
    }

    #[test]
    fn no_more_is_done_at_a_time_than_there_are_processors() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let work = || {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            std::thread::yield_now();
            now.fetch_sub(1, Ordering::SeqCst);
        };
        std::thread::scope(|scope| {
            let one = || (0..50).for_each(|_| runtime.block_on(aside(true, work)));
            (0..16).for_each(|_| drop(scope.spawn(one)));
        });
        let most = most.into_inner();
        assert!(most <= std::thread::available_parallelism().unwrap().get(), "{most}");
    }

    #[tokio::test]
    async fn work_is_done_where_there_is_no_other_thread() {
        assert_eq!(aside(true, || 1).await, 1);
    }
}
