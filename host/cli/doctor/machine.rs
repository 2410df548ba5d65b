//! What the machine gives: settings, folder, disk, files, clock.

use std::fs;
use std::io;
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;

use super::Finding;
use crate::auth;
use crate::backup;
use crate::clock::{Millis, SystemClock};
use crate::codec::time;
use crate::config::Settings;
use crate::metrics;
use crate::serve;

/// Free space below which the next writes may fail, and below which somebody should look, in bytes.
const LITTLE: u64 = 64 << 20;
const SCARCE: u64 = 1 << 30;
/// Open files below which many plugins or callers at once do not fit.
const FILES_LITTLE: u64 = 256;
const FILES_SCARCE: u64 = 4096;
/// Files that a host has open beside connections and plugins' databases, with some room.
const FILES_BESIDE: u64 = 64;
/// 2025-01-01: no clock that is right shows less.
const BUILT_AFTER: Millis = 1_735_689_600_000;
/// How far a record may lie ahead of the clock, in milliseconds.
const AHEAD: Millis = 60_000;

/// Which settings are not the defaults, and who set them.
pub(super) fn settings(settings: &Settings) -> Finding {
    if settings.given.is_empty() && settings.stores.is_empty() {
        return Finding::ok(
            "settings",
            "all of the host's are the defaults: no oncehost.toml, ONCEHOST_* or flag sets one",
        );
    }
    let given = settings.given.iter().map(|(name, from)| format!("{name} from {from}"));
    let stores = settings.stores.iter().map(|(plugin, placed)| format!("the store of {plugin} from {}", placed.from));
    let given: Vec<String> = given.chain(stores).collect();
    Finding::ok("settings", format!("{}; the rest are the defaults", given.join(", ")))
}

/// The keys by which JWTs are checked, where some are taken.
pub(super) async fn keys(settings: &Settings) -> Option<Finding> {
    match auth::look_at_keys(settings, Arc::new(SystemClock)).await {
        Ok(None) => None,
        Ok(Some(keys)) => Some(Finding::ok("jwks", format!("{keys} keys for JWTs can be used"))),
        Err(unusable) => Some(Finding::fail("jwks", unusable.to_string(), unusable.fix())),
    }
}

/// Whether a host that starts now could listen; asked where none runs.
pub(super) fn address(settings: &Settings) -> Option<Finding> {
    let error = TcpListener::bind(settings.listen).err()?;
    let why = serve::not_bound(settings.listen, &error);
    let (text, fix) = why.split_once("; ").unwrap_or((&why, "choose another with --listen"));
    Some(Finding::warn("listen", text, fix))
}

/// The data folder: there, writable, on a disk of this machine, without half a restore.
pub(super) fn folder(data: &Path) -> Vec<Finding> {
    let shown = data.display().to_string();
    let fail = |text: String, fix: &str| vec![Finding::fail("data", text, fix).of(shown.clone())];
    if data.exists() && !data.is_dir() {
        return fail("it is a file, and no folder".to_owned(), "name the right folder with --data DIR");
    }
    if !data.is_dir() {
        let fix = "it is made at the first start; if there should be data, name the right folder with --data DIR";
        return vec![Finding::warn("data", "there is no such folder", fix).of(shown)];
    }
    if data.join(backup::RESTORING).exists() {
        return fail("a restore into it was broken off".to_owned(), "run the same `oncehost restore` again");
    }
    let probe = data.join(".writable-doctor");
    // A full disk still takes an empty file.
    let written = fs::write(&probe, [0; 4096]);
    let removed = fs::remove_file(&probe);
    if let Err(error) = written.and(removed) {
        let kind = error.kind();
        let fix = if kind == io::ErrorKind::ReadOnlyFilesystem {
            "what is in it stays as it is: mount its disk for writing again (a disk that went over to reading by itself has \
             errors, and the system's log says which)"
        } else if kind == io::ErrorKind::PermissionDenied {
            "what is in it stays as it is: give the user who runs the host the right to write in it, and run this as that \
             user"
        } else if kind == io::ErrorKind::StorageFull {
            "what is in it stays as it is: make room on its disk; the host goes on by itself"
        } else {
            "what is in it stays as it is: take the cause away, and run this again"
        };
        return fail(format!("it cannot be written: {error}"), fix);
    }
    if let Some(kind) = foreign(data) {
        let fix = "put it on a disk of this machine: SQLite's locks and log need one";
        return vec![Finding::warn("data", format!("it is on {kind}"), fix).of(shown)];
    }
    vec![Finding::ok("data", "it can be written").of(shown)]
}

/// The name of a file system that is not this machine's own.
#[cfg(target_os = "linux")]
fn foreign(folder: &Path) -> Option<&'static str> {
    // Numbers of statfs(2).
    match u64::try_from(rustix::fs::statfs(folder).ok()?.f_type).ok()? & 0xffff_ffff {
        0x6969 => Some("NFS"),
        0x517b | 0xfe53_4d42 | 0xff53_4d42 => Some("an SMB share"),
        0x0102_1997 => Some("a 9p share"),
        _ => None,
    }
}

#[cfg(not(target_os = "linux"))]
fn foreign(_folder: &Path) -> Option<&'static str> {
    None
}

/// Free space where the data is, or will be.
pub(super) fn disk(data: &Path) -> Finding {
    let there = data.ancestors().find(|path| path.is_dir()).unwrap_or(Path::new("."));
    let there = if there.as_os_str().is_empty() { Path::new(".") } else { there };
    let stat = match rustix::fs::statvfs(there) {
        Ok(stat) => stat,
        Err(error) => return Finding::warn("disk", format!("its free space is unknown: {error}"), "look with df"),
    };
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    let text = format!("{} MiB are free", free >> 20);
    let fix = "free some space, or move the data folder to a larger disk";
    if free < LITTLE {
        return Finding::fail("disk", text, fix);
    }
    if stat.f_files > 0 && stat.f_favail < 100 {
        return Finding::fail("disk", "no more files can be made on it: it is out of inodes", fix);
    }
    if free < SCARCE { Finding::warn("disk", text, fix) } else { Finding::ok("disk", text) }
}

/// How many files a process may open, and how many a host with these plugins wants.
pub(super) fn files(settings: &Settings) -> Finding {
    let Some(limit) = metrics::open_files_limit() else {
        return Finding::ok("files", "any number may be open");
    };
    let plugins = fs::read_dir(&settings.plugins).into_iter().flatten().flatten();
    let plugins = plugins.filter(|folder| folder.path().join("plugin.json").is_file()).count();
    of_limit(limit, u64::try_from(plugins).unwrap_or(0), settings.connections)
}

fn of_limit(limit: u64, plugins: u64, connections: Option<usize>) -> Finding {
    // A lane's writer and readers have the database, its log and its index open.
    let lanes = std::thread::available_parallelism().map_or(2, usize::from).max(2) + 1;
    let needed = FILES_BESIDE + plugins * 3 * u64::try_from(lanes).unwrap_or(3);
    let text = format!(
        "{limit} may be open at a time, half of them by connections; the databases of {plugins} plugins at work at once and the \
         rest of the host want about {needed}"
    );
    let wanted = connections.and_then(|wanted| u64::try_from(wanted).ok()).unwrap_or(0).max(needed).saturating_mul(2);
    let fix = format!(
        "raise it: LimitNOFILE={most} in the service's unit, or `ulimit -n {most}` in the shell that starts the host",
        most = wanted.max(65_536)
    );
    if limit < FILES_LITTLE {
        return Finding::fail("files", text, fix);
    }
    if limit < FILES_SCARCE.max(wanted) { Finding::warn("files", text, fix) } else { Finding::ok("files", text) }
}

/// The machine's clock, against what was committed by it.
pub(super) fn clock(now: Millis, newest: Option<Millis>) -> Finding {
    let text = format!("it shows {}", time::shown(now));
    let fix = "set it right and let it be kept right, by chrony or systemd-timesyncd";
    if now < BUILT_AFTER {
        return Finding::fail("clock", text, fix);
    }
    match newest.filter(|newest| *newest > now + AHEAD) {
        Some(newest) => {
            let text = format!("{text}, and records were committed at {}: it was set back", time::shown(newest));
            Finding::warn("clock", text, fix)
        }
        None => Finding::ok("clock", text),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::*;

    #[test]
    fn clock_that_was_set_back_or_never_set_is_found() {
        let now = 1_767_225_600_000;
        assert_eq!(clock(now, None).level, Level::Ok);
        assert_eq!(clock(now, Some(now - 5)).level, Level::Ok);
        let back = clock(now, Some(now + 3_600_000));
        assert_eq!(back.level, Level::Warn);
        assert!(back.text.contains("2026-01-01T01:00:00.000Z: it was set back"), "{}", back.text);
        assert_eq!(clock(0, None).level, Level::Fail);
    }

    #[test]
    fn few_files_are_told_by_what_the_plugins_and_connections_want() {
        assert_eq!(of_limit(100, 1, None).level, Level::Fail);
        assert_eq!(of_limit(1024, 1, None).level, Level::Warn);
        assert_eq!(of_limit(4096, 1, None).level, Level::Ok);
        assert_eq!(of_limit(4096, 1000, None).level, Level::Warn);
        assert_eq!(of_limit(4096, 1, Some(3000)).level, Level::Warn);
        assert!(of_limit(4096, 2, None).text.contains("the databases of 2 plugins"));
    }

    #[test]
    fn folder_that_is_not_there_is_no_failure_and_half_a_restore_is() {
        let place = tempfile::tempdir().unwrap();
        assert_eq!(folder(&place.path().join("none"))[0].level, Level::Warn);
        assert_eq!(folder(place.path())[0].level, Level::Ok);
        fs::create_dir(place.path().join(backup::RESTORING)).unwrap();
        assert_eq!(folder(place.path())[0].level, Level::Fail);
        assert!(disk(&place.path().join("a/b/c")).text.contains("MiB"));
    }
}
