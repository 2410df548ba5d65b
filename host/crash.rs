//! Points at which a test has the process killed. Without the feature `crash-points` they are nothing at all.

/// Kills the process here, as `kill -9` would, when `ONCEHOST_CRASH_AT` names this point. `NAME:N` kills at the
/// N-th time it is reached.
#[macro_export]
macro_rules! crash_point {
    ($name:literal) => {
        #[cfg(feature = "crash-points")]
        $crate::crash::reached($name);
    };
}

#[cfg(feature = "crash-points")]
pub(crate) fn reached(name: &str) {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU32, Ordering};

    static WANTED: OnceLock<Option<(String, AtomicU32)>> = OnceLock::new();
    let wanted = WANTED.get_or_init(|| {
        #[expect(clippy::disallowed_methods, reason = "a switch of the tests, no setting")]
        let value = std::env::var("ONCEHOST_CRASH_AT").ok()?;
        let (name, nth) = value.split_once(':').unwrap_or((&value, "1"));
        Some((name.to_owned(), AtomicU32::new(nth.parse().ok()?)))
    });
    if let Some((wanted, left)) = wanted
        && wanted == name
        && left.fetch_sub(1, Ordering::SeqCst) == 1
    {
        // Nothing after this line runs: no destructor, no flush.
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
}
