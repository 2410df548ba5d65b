//! `oncehost backup` and `oncehost restore`

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value as Json, json};

use super::progress::Bar;
use super::{Fail, complain, local, print};
use crate::app::lock::{self, Holder, LockError};
use crate::app::{check_data, take_folder};
use crate::backup::{self, BackupError, Manifest};
use crate::clock::{Clock, SystemClock};
use crate::config::Settings;
use crate::store::Stores;

/// Copy all databases as they are at one moment, while a host runs or not
#[derive(Debug, Args)]
#[command(after_help = "The backup is there whole or not at all.\n\n\
    Example: oncehost backup backups/monday.tar")]
pub(super) struct Backup {
    /// A new file that ends in .tar, or a new folder
    to: PathBuf,
    /// Print the manifest as JSON
    #[arg(long)]
    json: bool,
}

/// Put a backup into an empty data folder on which no host runs
#[derive(Debug, Args)]
#[command(after_help = "All files are checked against the backup's manifest before the first gets its place.\n\n\
    Example: oncehost restore backups/monday.tar --data restored")]
pub(super) struct Restore {
    /// What `oncehost backup` made
    backup: PathBuf,
    /// Print the manifest as JSON
    #[arg(long)]
    json: bool,
}

impl From<BackupError> for Fail {
    fn from(error: BackupError) -> Self {
        Fail::Failed(error.0)
    }
}

impl Backup {
    pub(super) async fn run(self, settings: Settings) -> Result<(), Fail> {
        backup::are_files(&settings)?;
        let data = &settings.data;
        let to = std::path::absolute(&self.to)?;
        let body = json!({ "to": to }).to_string();
        let mut bar = Bar::new("backup");
        let mut last = Json::Null;
        let request = local::request("POST", "/admin/backup", Some(body))?;
        let asked = local::lines(data, request, |line| match serde_json::from_value(line["progress"].clone()) {
            Ok(progress) => bar.show(&progress),
            Err(_) => last = line,
        });
        let manifest = if asked.await? {
            outcome(&last)?
        } else {
            check_data(&settings)?;
            let _lock = take_folder(data, Holder::Command)?;
            Stores::new(&settings)?.check_whole().map_err(Fail::Failed)?;
            let held = backup::hold(data, SystemClock.now(), true)?.without(backup::elsewhere(&settings));
            held.write(&to, &mut |progress| {
                bar.show(&progress);
                true
            })?
        };
        drop(bar);
        show(&manifest, self.json, &format!("backed up to {}", self.to.display()))
    }
}

/// What the running host said last.
fn outcome(last: &Json) -> Result<Manifest, Fail> {
    if let Some(why) = last.get("error").and_then(Json::as_str) {
        return Err(Fail::Failed(why.to_owned()));
    }
    serde_json::from_value(last["manifest"].clone()).map_err(|_| {
        Fail::Failed("the running host ended before the backup was whole; nothing of it is kept".to_owned())
    })
}

impl Restore {
    pub(super) async fn run(self, settings: Settings) -> Result<(), Fail> {
        backup::are_files(&settings)?;
        let data: &Path = &settings.data;
        if !self.backup.exists() {
            let text = format!(
                "there is no backup {}; name the file or folder that `oncehost backup` made",
                self.backup.display()
            );
            return Err(Fail::Usage(text));
        }
        // Before anything is made in the folder.
        backup::manifest(&self.backup)?;
        let made = Made::in_folder(data);
        let lock = lock::take(data, Holder::Command).map_err(beside_a_host)?;
        let mut bar = Bar::new("restore");
        let restored = backup::restore(&self.backup, data, &mut |progress| bar.show(&progress));
        drop(bar);
        if restored.is_err() {
            made.remove();
        }
        drop(lock);
        show(&restored?, self.json, &format!("restored into {}", data.display()))
    }
}

/// What a restore makes beside the databases, so that one that fails leaves nothing behind.
struct Made {
    folder: Option<PathBuf>,
    lock: Option<PathBuf>,
}

impl Made {
    /// What is about to be made.
    fn in_folder(data: &Path) -> Self {
        let unless_there = |path: PathBuf| (!path.exists()).then_some(path);
        Self { folder: unless_there(data.to_owned()), lock: unless_there(lock::path(data)) }
    }

    /// Takes it away again; a folder only where nothing else is in it.
    fn remove(self) {
        let _ = self.lock.map(std::fs::remove_file);
        let _ = self.folder.map(std::fs::remove_dir);
    }
}

fn beside_a_host(error: LockError) -> Fail {
    match error {
        LockError::Held { data, who: Holder::Host, process, .. } => Fail::Failed(format!(
            "a host is running on the data folder {} ({process}), and a restore wants an empty folder without one; name \
             another with --data DIR",
            data.display()
        )),
        other @ (LockError::Held { .. } | LockError::Denied { .. }) => other.into(),
    }
}

fn show(manifest: &Manifest, json: bool, done: &str) -> Result<(), Fail> {
    if json {
        return print(&serde_json::to_string_pretty(manifest).unwrap_or_default());
    }
    let bytes: u64 = manifest.files.iter().map(|file| file.bytes).sum();
    let (files, taken) = (manifest.files.len(), &manifest.taken_at);
    print(&format!("{done}: {files} databases, {bytes} bytes, as they were at {taken}"))?;
    if !manifest.elsewhere.is_empty() {
        complain(&format!(
            "not in it, since their data are on Postgres: {}. Their databases have backups of their own; for all of one moment, \
             take both while no host runs",
            manifest.elsewhere.join(", ")
        ));
    }
    Ok(())
}
