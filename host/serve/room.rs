//! What the system gives a process: open files, threads, address space. Too little of it is said at the start, before it is
//! missing in the middle of something.

use std::sync::{Mutex, PoisonError};
use std::thread;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::app::StartError;
use crate::config::Settings;

/// The most connections at one time over TCP, where no setting says it.
const CONNECTIONS: usize = 8192;
/// Files that a host must be able to open at a time, and below which it says that they are few.
const FEWEST_FILES: u64 = 64;
const MANY_FILES: u64 = 4096;
/// Threads that a host with one busy plugin has; where it gets no more, further plugins wait for each other.
const FEWEST_THREADS: usize = 16;
/// Bytes of address space, of which stacks and the allocator take most: little of them is ever used. Enough for some ten
/// plugins at work.
const LEAST_SPACE: u64 = 4 << 30;

/// Raises the number of files that this process may open as far as the system lets it, and gives that number.
///
/// # Errors
/// When it is too small for a host.
pub(super) fn raise_open_files() -> Result<u64, StartError> {
    let mut limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, ..limit };
    if setrlimit(Resource::Nofile, raised).is_ok() {
        limit = raised;
    }
    let files = limit.current.unwrap_or(u64::MAX);
    if files >= FEWEST_FILES {
        return Ok(files);
    }
    Err(StartError(format!(
        "this process may open {files} files at a time, and a host needs {FEWEST_FILES} at the least, better \
         {MANY_FILES}; raise it with `ulimit -n {MANY_FILES}`, or LimitNOFILE={MANY_FILES} in the service's unit"
    )))
}

/// How many connections there may be: at most half of the files that may be open. The databases need theirs.
pub(super) fn connection_limit(settings: &Settings) -> usize {
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let half = usize::try_from(files / 2).unwrap_or(usize::MAX);
    let connections = settings.connections.unwrap_or(CONNECTIONS).min(half);
    if files < MANY_FILES || settings.connections.is_some_and(|wanted| wanted > half) {
        tracing::warn!(files, connections, "few files may be open at a time (ulimit -n), so fewer callers are served");
    }
    connections
}

/// Sees that this process may have the threads that a host needs. What runs asynchronous work gives up where the first of
/// its own cannot be had, so this comes before it.
///
/// # Errors
/// When it may not.
pub fn check_threads() -> Result<(), StartError> {
    if let Some(space) = getrlimit(Resource::As).current.filter(|space| *space < LEAST_SPACE) {
        let (space, least) = (space >> 20, LEAST_SPACE >> 20);
        return Err(StartError(format!(
            "this process may use {space} MiB of address space, and a host needs {least} at the least; raise it with `ulimit -v \
             unlimited`, or LimitAS=infinity in the service's unit; MemoryMax= bounds what it takes"
        )));
    }
    let gate = Mutex::new(());
    let wait = || drop(gate.lock().unwrap_or_else(PoisonError::into_inner));
    let failed = thread::scope(|scope| {
        // All are there at a time, until this is let go of.
        let _held = gate.lock().unwrap_or_else(PoisonError::into_inner);
        let start = || thread::Builder::new().spawn_scoped(scope, wait).err();
        (0..FEWEST_THREADS).find_map(|had| Some((had, start()?)))
    });
    failed.map_or(Ok(()), |(had, error)| {
        Err(StartError(format!(
            "this process may have {had} threads more, and a host needs {FEWEST_THREADS} at the least ({error}); raise what limits \
             them: `ulimit -u`, TasksMax= in the service's unit, or a container's limit of processes"
        )))
    })
}
