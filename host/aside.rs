//! Long work on the few threads that read and write for clients.

use tokio::runtime::{Handle, RuntimeFlavor};

/// Bytes of JSON that take long: to be read, checked and hashed, about a millisecond.
pub const LONG: usize = 64 << 10;

/// Does `work`. Where it takes long, another thread takes the place of this one meanwhile, so that the other clients
/// are served.
pub fn aside<R>(takes_long: bool, work: impl FnOnce() -> R) -> R {
    let serves = || Handle::try_current().is_ok_and(|it| it.runtime_flavor() == RuntimeFlavor::MultiThread);
    if takes_long && serves() { tokio::task::block_in_place(work) } else { work() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_go_on_beside_long_work_where_one_thread_serves() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let (done, wait) = std::sync::mpsc::channel();
        let long = runtime.spawn(async move {
            Handle::current().spawn(async move { done.send(()).unwrap() });
            aside(true, || wait.recv_timeout(std::time::Duration::from_secs(60)))
        });
        assert_eq!(runtime.block_on(long).unwrap(), Ok(()));
    }

    #[tokio::test]
    async fn work_is_done_where_there_is_no_other_thread() {
        assert_eq!(aside(true, || 1), 1);
        assert_eq!(std::thread::spawn(|| aside(true, || 2)).join().unwrap(), 2);
    }
}
