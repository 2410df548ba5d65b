//! The lock of a data folder: one host at a time, or one command where no host runs.

use std::fmt;
use std::fs::{DirBuilder, File, TryLockError};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// The lock's name in the folder. Who holds it is written into it.
const NAME: &str = "lock";
/// How long a command that works on the folder is waited for: most are done at once.
const WAIT: Duration = Duration::from_secs(5);
/// The same for a host, for one that is about to end or to write down that it is one.
const BRIEF: Duration = Duration::from_millis(300);
const PAUSE: Duration = Duration::from_millis(20);

/// Who holds a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    Host,
    Command,
}

/// Why the lock cannot be had: one sentence with the way out.
#[derive(Debug)]
pub enum LockError {
    /// Another process holds it. `who` and its id are what it wrote down; `asking` is this process.
    Held {
        data: PathBuf,
        who: Holder,
        process: String,
        asking: Holder,
    },
    Denied {
        data: PathBuf,
        error: std::io::Error,
    },
}

impl fmt::Display for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LockError::Held { data, who: Holder::Host, process, asking: Holder::Host } => write!(
                f,
                "another host is running on the data folder {} ({process}); stop it, or name another folder with \
                 --data DIR",
                data.display()
            ),
            LockError::Held { data, who: Holder::Host, process, asking: Holder::Command } => write!(
                f,
                "a host is running on the data folder {} ({process}) and does not answer on its local socket; where it \
                 just starts or stops, try again, otherwise its log says why",
                data.display()
            ),
            LockError::Held { data, who: Holder::Command, process, .. } => write!(
                f,
                "another command ({process}) has been at work on the data folder {} for {} s; try again when it has \
                 ended",
                data.display(),
                WAIT.as_secs()
            ),
            LockError::Denied { data, error } if error.kind() == std::io::ErrorKind::StorageFull => {
                write!(
                    f,
                    "cannot use the data folder {}: the disk is full; make room, and run this again",
                    data.display()
                )
            }
            LockError::Denied { data, .. } if data.exists() && !data.is_dir() => {
                write!(f, "the data folder {} is a file, and no folder; name another with --data DIR", data.display())
            }
            LockError::Denied { data, error } => {
                write!(f, "cannot use the data folder {}: {error}; name another with --data DIR", data.display())
            }
        }
    }
}

/// Takes the lock of a data folder, which is made where it is not there; dropping the file gives it back. A command
/// that holds it is waited for.
///
/// # Errors
/// When the folder cannot be used or another process holds it.
pub fn take(folder: &Path, asking: Holder) -> Result<File, LockError> {
    let denied = |error| LockError::Denied { data: folder.to_owned(), error };
    // What is in it is for the user who runs the host; on a folder that somebody made it is for him to say.
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(denied)?;
    let mut options = File::options();
    let file = options.create(true).read(true).write(true).truncate(false).mode(0o600).open(path(folder));
    let file = file.map_err(denied)?;
    let begun = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => {
                sign(&file, asking);
                return Ok(file);
            }
            Err(TryLockError::Error(error)) => return Err(denied(error)),
            Err(TryLockError::WouldBlock) => {}
        }
        let (who, process) = signed(&file);
        if begun.elapsed() > if who == Holder::Host { BRIEF } else { WAIT } {
            return Err(LockError::Held { data: folder.to_owned(), who, process, asking });
        }
        thread::park_timeout(PAUSE);
    }
}

/// Where a folder's lock is.
pub fn path(folder: &Path) -> PathBuf {
    folder.join(NAME)
}

/// Who holds a folder's lock, and which process that is; `None` where it is free.
pub fn holder(folder: &Path) -> Option<(Holder, String)> {
    let file = File::open(path(folder)).ok()?;
    // Shared, so that two who look do not take each other for somebody.
    matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)).then(|| signed(&file))
}

/// Writes down who holds the lock. Where that fails, others only hear less.
fn sign(file: &File, who: Holder) {
    let who = if who == Holder::Host { "host" } else { "command" };
    let text = format!("{who} {}\n", std::process::id());
    let length = u64::try_from(text.len()).unwrap_or(0);
    let written = file.write_all_at(text.as_bytes(), 0).and_then(|()| file.set_len(length));
    if let Err(error) = written {
        tracing::debug!(%error, "the lock does not say who holds it");
    }
}

/// What the holder wrote down.
fn signed(file: &File) -> (Holder, String) {
    let mut bytes = [0; 40];
    let length = file.read_at(&mut bytes, 0).unwrap_or(0);
    let text = String::from_utf8_lossy(&bytes[..length]).into_owned();
    let (who, id) = text.trim().split_once(' ').unwrap_or(("", "?"));
    (if who == "host" { Holder::Host } else { Holder::Command }, format!("process {id}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holder_of_a_folder_is_named() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(holder(folder.path()), None);
        let held = take(folder.path(), Holder::Command).unwrap();
        let own = format!("process {}", std::process::id());
        assert_eq!(holder(folder.path()), Some((Holder::Command, own.clone())));
        drop(held);
        assert_eq!(holder(folder.path()), None, "what is written in it holds nothing");
        let _held = take(folder.path(), Holder::Host).unwrap();
        let refused = take(folder.path(), Holder::Host).unwrap_err().to_string();
        assert!(
            refused.starts_with("another host is running on the data folder ") && refused.contains(&own),
            "{refused}"
        );
        let refused = take(folder.path(), Holder::Command).unwrap_err().to_string();
        assert!(refused.starts_with("a host is running on the data folder "), "{refused}");
    }

    #[test]
    fn command_that_holds_a_folder_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let held = take(folder.path(), Holder::Command).unwrap();
        std::thread::scope(|scope| {
            let second = scope.spawn(|| take(folder.path(), Holder::Host));
            drop(held);
            assert!(second.join().unwrap().is_ok());
        });
    }
}
