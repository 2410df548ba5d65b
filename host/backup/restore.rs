//! Restoring a backup: whole, or not at all.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use super::{BackupError, Entry, FORMAT, MANIFEST, Manifest, Progress, force, is_database, is_no_data, through};
use crate::store::sqlite::files::create;

/// A folder in a data folder into which a restore has begun and not ended. No host starts beside it.
pub const RESTORING: &str = ".restoring";

/// The largest manifest that is read, in bytes.
const MANIFEST_LIMIT: u64 = 16 << 20;

/// Puts the databases of `backup` into the folder `data`, whose lock the caller holds. They are compared with the
/// manifest's hashes before the first of them gets its place. A restore that was killed can be run again.
///
/// # Errors
/// When `data` holds anything else, or the backup is not whole, was changed, or is of a newer form.
pub fn restore(backup: &Path, data: &Path, tell: &mut dyn FnMut(Progress)) -> Result<Manifest, BackupError> {
    let manifest = manifest(backup)?;
    clear(data, &manifest)?;
    let staging = data.join(RESTORING);
    let failed = |error: io::Error| BackupError::at("write", data, &error);
    DirBuilder::new().mode(0o700).create(&staging).and_then(|()| force(data)).map_err(failed)?;
    let restored = stage(backup, &manifest, &staging, tell);
    if let Err(error) = restored {
        // Nothing is in its place yet, so that the folder may be as it was.
        fs::remove_dir_all(&staging).map_err(failed)?;
        return Err(error);
    }
    for file in &manifest.files {
        fs::rename(staging.join(&file.name), data.join(&file.name)).map_err(failed)?;
    }
    force(data).and_then(|()| fs::remove_dir(&staging)).and_then(|()| force(data)).map_err(failed)?;
    Ok(manifest)
}

/// Makes sure that nothing is in the folder but what an unfinished restore of this backup left there.
fn clear(data: &Path, manifest: &Manifest) -> Result<(), BackupError> {
    let failed = |error: io::Error| BackupError::at("read", data, &error);
    let unfinished = data.join(RESTORING).is_dir();
    let mut left = Vec::new();
    for entry in fs::read_dir(data).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if unfinished && (name == RESTORING || manifest.files.iter().any(|file| file.name == name)) {
            left.push(entry.path());
        } else if !is_no_data(&name) {
            return Err(BackupError(format!(
                "the data folder {} is not empty ({name} is in it); restore into an empty one with --data DIR, and move \
                 it into place then",
                data.display()
            )));
        }
    }
    // Databases first: as long as the folder's mark is there, no host starts.
    left.sort_by_key(|path| path.is_dir());
    for path in left {
        let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        removed.map_err(failed)?;
    }
    Ok(())
}

/// Calls `take` with each file of a backup, by its name, until it says that it needs no more.
fn each(
    backup: &Path,
    take: &mut dyn FnMut(&str, &mut dyn Read) -> Result<bool, BackupError>,
) -> Result<(), BackupError> {
    let failed = |error: io::Error| BackupError::at("read the backup", backup, &error);
    if backup.is_dir() {
        if !backup.join(MANIFEST).exists() {
            return Err(no_backup(backup, "it has no manifest.json"));
        }
        // The manifest first, as in an archive.
        let mut names = vec![MANIFEST.to_owned()];
        for entry in fs::read_dir(backup).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name().to_string_lossy().into_owned();
            names.extend(is_database(&name).then_some(name));
        }
        for name in names {
            let path = backup.join(&name);
            let mut file = File::open(&path).map_err(|error| BackupError::at("read the backup's", &path, &error))?;
            if !take(&name, &mut file)? {
                break;
            }
        }
        return Ok(());
    }
    let mut archive = tar::Archive::new(File::open(backup).map_err(failed)?);
    let mut is_first = true;
    for entry in archive.entries().map_err(failed)? {
        // What cannot be read from the beginning is something else; later on it is a backup that was damaged.
        let odd = |error: io::Error| if is_first { no_backup(backup, "it is no tar archive") } else { failed(error) };
        let mut entry = entry.map_err(odd)?;
        is_first = false;
        let name = entry.path().map_err(failed)?.to_string_lossy().into_owned();
        if !take(&name, &mut entry)? {
            break;
        }
    }
    Ok(())
}

fn no_backup(backup: &Path, why: &str) -> BackupError {
    BackupError(format!(
        "{} is no backup of oncehost: {why}; name the .tar file or the folder that `oncehost backup` made",
        backup.display()
    ))
}

/// Reads what a backup says it holds.
///
/// # Errors
/// When it is no backup, or of a newer form.
pub fn manifest(backup: &Path) -> Result<Manifest, BackupError> {
    let shown = backup.display();
    let mut text = None;
    each(backup, &mut |name, file| {
        if name == MANIFEST {
            let mut bytes = Vec::new();
            let read = file.take(MANIFEST_LIMIT).read_to_end(&mut bytes);
            read.map_err(|error| BackupError::at("read the backup", backup, &error))?;
            text = Some(bytes);
        }
        Ok(text.is_none())
    })?;
    let no_backup = |why: &str| no_backup(backup, why);
    let text = text.ok_or_else(|| no_backup("it has no manifest.json"))?;
    let form: serde_json::Value = serde_json::from_slice(&text).map_err(|_| no_backup("its manifest is not JSON"))?;
    if form.get("format").and_then(serde_json::Value::as_u64) > Some(u64::from(FORMAT)) {
        return Err(BackupError(format!("{shown} was made by a newer oncehost; restore it with that version")));
    }
    let manifest: Manifest = serde_json::from_value(form).map_err(|error| no_backup(&error.to_string()))?;
    match manifest.files.iter().find(|file| !is_database(&file.name)) {
        Some(file) => Err(no_backup(&format!("{:?} in its manifest is no database's name", file.name))),
        None => Ok(manifest),
    }
}

/// Brings all files into `staging` and compares them with the manifest.
fn stage(
    backup: &Path,
    manifest: &Manifest,
    staging: &Path,
    tell: &mut dyn FnMut(Progress),
) -> Result<(), BackupError> {
    let total: u64 = manifest.files.iter().map(|file| file.bytes).sum();
    let mut missing: Vec<&Entry> = manifest.files.iter().collect();
    let mut done = 0;
    each(backup, &mut |name, from| {
        let Some(place) = missing.iter().position(|file| file.name == name) else { return Ok(true) };
        let wanted = missing.swap_remove(place);
        let path = staging.join(name);
        let written = create(&path).and_then(|mut to| {
            let sha256 = through(from, &mut to, &mut |bytes| {
                done += bytes;
                tell(Progress { file: name.to_owned(), done, total });
            })?;
            to.sync_all()?;
            Ok(sha256)
        });
        let sha256 = written.map_err(|error| {
            let full = error.kind() == io::ErrorKind::StorageFull;
            let why = if full {
                let all = total.div_ceil(1 << 20);
                format!(
                    "the disk is full; nothing was restored, make room (all of it takes {all} MiB) and run this again"
                )
            } else {
                error.to_string()
            };
            BackupError(format!("cannot restore {name}: {why}"))
        })?;
        if sha256 != wanted.sha256 {
            return Err(BackupError(format!(
                "{name} in the backup is not what its manifest says: it was changed or damaged after it was taken; \
                 nothing was restored, use another backup"
            )));
        }
        Ok(true)
    })?;
    match missing.first() {
        Some(file) => Err(BackupError(format!(
            "{} is missing in the backup, though its manifest names it; nothing was restored, use another backup",
            file.name
        ))),
        None => force(staging).map_err(|error| BackupError::at("write", staging, &error)),
    }
}
